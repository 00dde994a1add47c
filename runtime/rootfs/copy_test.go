package rootfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// plant makes files in dir: a name that ends with / is a folder, a text that
// begins with "-> " a link.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case link:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns what is in dir, as plant takes it, with modes of files.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			found[name+"/"] = ""
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			found[name] = "-> " + target
			return err
		default:
			text, err := os.ReadFile(path)
			found[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCopyOfEtc(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "etc"), filepath.Join(t.TempDir(), "copy")
	plant(t, from, map[string]string{
		"plain":                         "text",
		"program":                       "#!/bin/sh",
		"private":                       "secret",
		"closed/below":                  "secret",
		"folder/below/deep":             "text",
		"empty/":                        "",
		"ours":                          "theirs",
		"certs/ssl-cert-snakeoil.pem":   "names the host",
		"certs/ce275665.0":              "-> ssl-cert-snakeoil.pem",
		"to usr":                        "-> /usr/share/zoneinfo/UTC",
		"to usr, around":                "-> /usr/../usr/share/x",
		"to etc":                        "-> /etc/passwd",
		"out":                           "-> /var/lib/secret",
		"out, around":                   "-> /usr/../home/user",
		"out, by a name that looks so":  "-> /usrlocal/x",
		"out, relative":                 "-> ../../../../../../../../root/.ssh",
		"relative, in a temporary tree": "-> plain",
	})
	for name, mode := range map[string]os.FileMode{"program": 0o755, "private": 0o640, "closed": 0o750} {
		if err := os.Chmod(filepath.Join(from, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(from, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	plant(t, to, map[string]string{"ours": "ours"})
	c := &copier{left: maxTotalBytes}
	if err := c.tree(from, to); err != nil {
		t.Fatalf("tree = %v", err)
	}
	want := map[string]string{
		"plain": "444 text", "program": "555 #!/bin/sh", "ours": "644 ours",
		"folder/": "", "folder/below/": "", "folder/below/deep": "444 text", "empty/": "", "certs/": "",
		"to usr": "-> /usr/share/zoneinfo/UTC", "to usr, around": "-> /usr/../usr/share/x", "to etc": "-> /etc/passwd",
	}
	if diff := cmp.Diff(want, contents(t, to)); diff != "" {
		t.Errorf("copy (-want +got):\n%s", diff)
	}
}

// sized makes a file of n bytes that take no room.
func sized(t *testing.T, name string, n int64) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, n); err != nil {
		t.Fatal(err)
	}
}

func TestCopyIsBounded(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	sized(t, filepath.Join(from, "1 largest"), maxFileBytes)
	sized(t, filepath.Join(from, "2 too large"), maxFileBytes+1)
	sized(t, filepath.Join(from, "3 what is left"), 10)
	sized(t, filepath.Join(from, "4 more than is left"), 1)
	sized(t, filepath.Join(from, "5 nothing"), 0)
	c := &copier{left: maxFileBytes + 10}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.tree(from, to); err != nil {
		t.Fatalf("tree = %v", err)
	}
	var got []string
	entries, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff([]string{"1 largest", "3 what is left", "5 nothing"}, got); diff != "" {
		t.Errorf("copied (-want +got):\n%s", diff)
	}
}

func TestCopyOfWhatIsNotThere(t *testing.T) {
	c := &copier{left: maxTotalBytes}
	if err := c.tree(filepath.Join(t.TempDir(), "gone"), t.TempDir()); err != nil {
		t.Errorf("tree of what is not there = %v, want nil", err)
	}
}

func TestKeyLikeNames(t *testing.T) {
	dir := t.TempDir()
	secret := []string{
		"id_rsa", "a/id_ed25519.pub", "a/server.key", "b/c/.env", "b/.env.production", ".netrc", "credentials", "credentials.json",
		"secrets.toml", "github_token", "x.token", "db.kdbx", "store.jks", "k.p12", "k.pfx", "vpn.ovpn", "krb5.keytab", ".pypirc", ".npmrc", ".pgpass",
		".git-credentials", ".htpasswd", ".aws/", ".ssh/", "deep/er/.gnupg/", ".docker/", ".kube/",
	}
	harmless := []string{"key", "keyboard.py", "monkey.txt", "env", "a.env.txt", "id.py", "tokenize.py", "credentials.py", "secret", "aws/", "netrc.py"}
	files := map[string]string{
		// What is in a folder that is hidden as a whole is not listed again.
		".ssh/id_rsa": "", "deep/er/.gnupg/x.key": "", "link.key": "-> /usr/bin/env",
	}
	for _, name := range append(secret, harmless...) {
		files[name] = ""
	}
	plant(t, dir, files)
	var want, got []string
	for _, name := range append(secret, "link.key") {
		want = append(want, strings.TrimSuffix(name, "/"))
	}
	for _, name := range keyLikeBelow(dir) {
		got = append(got, strings.TrimPrefix(name, dir+"/"))
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("key-like names (-want +got):\n%s", diff)
	}
}
