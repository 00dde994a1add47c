package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxScanned bounds the look for key-like names.
const maxScanned = 200_000

// keyLike are names of files that often hold a secret. They are looked for
// below /usr/local alone: what a distribution installs holds none.
var keyLike = []string{
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.keytab",
	"*.jks", "*.ovpn", ".env", ".env.*", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials",
	".htpasswd", "credentials", "credentials.json", "secrets.*", "*_token", "*.token", ".aws", ".ssh",
	".gnupg", ".docker", ".kube",
}

// HiddenByDefault lists what of /usr is an administrator's own, by paths from
// /usr.
func HiddenByDefault() []string {
	return []string{"local/etc", "local/src", "local/sbin", "src"}
}

// KeyLike says whether name, the last part of a path, is one of those that often
// hold a secret. Below /usr/local no sandbox sees such a file.
func KeyLike(name string) bool {
	for _, p := range keyLike {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// hide covers what matches one of the patterns, and key-like names, with
// something empty.
func (b *builder) hide(patterns []string) {
	var found []string
	for _, p := range patterns {
		// The patterns were checked with the configuration; a bad one matches
		// nothing, which Glob reports.
		m, err := filepath.Glob(path.Join("/usr", p))
		b.try(err)
		found = append(found, m...)
	}
	for _, name := range append(found, keyLikeBelow("/usr/local")...) {
		b.cover(name)
	}
}

// cover mounts an empty file or folder over name. A link is covered where it
// leads, if that is below /usr. What is in a folder that is covered already is
// gone with it.
func (b *builder) cover(name string) {
	target, err := filepath.EvalSymlinks(name)
	if err != nil || !strings.HasPrefix(target, "/usr/") {
		return
	}
	fi, err := os.Stat(target)
	if err != nil {
		return
	}
	if _, err := os.Lstat(b.in(target)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	source := "/.hidden/file"
	if fi.IsDir() {
		source = "/.hidden/folder"
	}
	b.bind(b.in(source), target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// keyLikeBelow returns the names below dir that look like those of secrets.
// Folders that cannot be read are none of the sandbox's either.
func keyLikeBelow(dir string) []string {
	var found []string
	scanned := 0
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if scanned++; scanned > maxScanned {
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir
		}
		if KeyLike(d.Name()) {
			found = append(found, name)
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	return found
}
