package rootfs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// HostState returns what tells one state of the image "host" from another: it
// changes when Python is replaced, when a package for it or a library is
// installed or removed, and when what is copied of /etc changes. What is mounted
// changes under a sandbox that is there; what was copied or imported does not. It
// takes some ten microseconds.
func HostState() string { return stateBelow("/") }

// stateBelow is HostState of a host whose root is dir.
func stateBelow(dir string) string {
	names := []string{
		Python, "/usr/lib/python3/dist-packages", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/ssl/certs", "/etc/fonts",
	}
	// The link to the interpreter is named like its libraries.
	if version, err := os.Readlink(filepath.Join(dir, Python)); err == nil {
		version = filepath.Base(version)
		names = append(names, filepath.Join("/usr/lib", version), filepath.Join("/usr/local/lib", version, "dist-packages"))
	}
	h := sha256.New()
	for _, name := range names {
		var st unix.Stat_t
		var seen [4]int64 // all zero of what is not there
		if unix.Stat(filepath.Join(dir, name), &st) == nil {
			seen = [...]int64{int64(st.Ino), st.Size, st.Mtim.Sec, st.Mtim.Nsec}
		}
		_ = binary.Write(h, binary.NativeEndian, seen[:]) // a hash takes all
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
