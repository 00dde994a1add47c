package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pem is what a private key begins with; it is none.
const pem = "-----BEGIN " + "PRIVATE KEY-----\n"

func TestShows(t *testing.T) {
	const nothing = "sandboxes see nothing below /usr that no package brought"
	const list = "var/lib/dpkg/info/x.list"
	one := func(name string) string { return "1 thing below /usr that no package brought: " + name + ";" }
	for _, test := range []struct {
		name   string
		files  map[string]string
		hide   []string
		detail string
	}{
		{"nothing", nil, nil, nothing},
		{"below /usr/local", map[string]string{
			"usr/local/bin/mine": "", "usr/local/lib/own/x": "", "usr/local/etc/secret": "", "usr/local/src/x": "", "usr/local/sbin/y": "",
		}, nil, "2 things below /usr that no package brought: local/bin/mine, local/lib/own; sandbox.host.hide"},
		{"a whole folder", map[string]string{"usr/local/go/bin/go": "", "usr/local/go/VERSION": ""}, nil, one("local/go")},
		{"a package of Python's", map[string]string{"usr/local/lib/python3.11/dist-packages/mine/a.py": "", "usr/local/lib/python3.11/dist-packages/mine/b.py": ""}, nil, one("local/lib/python3.11/dist-packages/mine")},
		{"in /usr itself", map[string]string{"usr/bin/mine": ""}, nil, one("bin/mine")},
		{"a package's", map[string]string{"usr/bin/theirs": "", list: "/usr/bin/theirs\n"}, nil, nothing},
		{"a package's, merged", map[string]string{"usr/bin/theirs": "", "usr/lib/theirs/x": "", list: "/bin/theirs\n/lib\n/lib/theirs\n/lib/theirs/x\n"}, nil, nothing},
		{"of a name that begins as a merged one", map[string]string{"usr/library/x": "", list: "/library/x\n/library\n"}, nil, one("library")},
		{"two levels down", map[string]string{"usr/lib/theirs/mine": "", list: "/usr/lib\n/usr/lib/theirs\n"}, nil, one("lib/theirs/mine")},
		{"deeper than is looked", map[string]string{"usr/lib/a/b/mine": "", list: "/usr/lib\n/usr/lib/a\n/usr/lib/a/b\n"}, nil, nothing},
		{"among the packages of Python", map[string]string{"usr/lib/python3/dist-packages/mine.pth": "", "usr/lib/python3/dist-packages/theirs.py": "", list: "/usr/lib\n/usr/lib/python3\n/usr/lib/python3/dist-packages\n/usr/lib/python3/dist-packages/theirs.py"}, nil, one("lib/python3/dist-packages/mine.pth")},
		{"generated", map[string]string{"usr/bin/__pycache__/x": "", "usr/share/mime/text/x": "", list: "/usr/share/mime\n"}, nil, nothing},
		{"diverted", map[string]string{"usr/bin/sh.distrib": "", "var/lib/dpkg/diversions": "/bin/sh\n/usr/bin/sh.distrib\ndash\n"}, nil, nothing},
		{"hidden", map[string]string{"usr/bin/mine": "", "usr/local/bin/also": "", "usr/bin/seen": ""}, []string{"bin/mi*", "local/bin/*"}, one("bin/seen")},
		{"covered", map[string]string{"usr/local/bin/id_rsa": "", "usr/local/share/x/.env": ""}, nil, one("local/share/x")},
		{"a certificate", map[string]string{"usr/share/ca.pem": "-----BEGIN CERTIFICATE-----\n"}, nil, one("share/ca.pem")},
		{"a key of tests", map[string]string{"usr/local/go/testdata/key.pem": pem}, nil, one("local/go")},
		{"no dpkg", map[string]string{"var/lib/dpkg/info/python3.list": absent, "usr/bin/mine": ""}, nil, "nothing below /usr/local that no package brought (there is no database of dpkg"},
		{"no dpkg, but something", map[string]string{"var/lib/dpkg/info/python3.list": absent, "usr/local/bin/mine": ""}, nil, "1 thing below /usr/local that no package brought: local/bin/mine (there is no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := madeUp(t, 1000, test.files)
			merge(t, h)
			says(t, h.shows(test.hide), OK, test.detail, "")
		})
	}
}

// merge makes /bin and /lib lead into /usr.
func merge(t *testing.T, h *Host) {
	t.Helper()
	for _, name := range []string{"bin", "lib"} {
		if err := os.Symlink("usr/"+name, h.path(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShowsUnmerged: where /bin is a folder of its own, what a package has there
// is not what is in /usr/bin.
func TestShowsUnmerged(t *testing.T) {
	h := madeUp(t, 1000, map[string]string{"bin/x": "", "usr/bin/x": "", "var/lib/dpkg/info/x.list": "/bin/x\n"})
	says(t, h.shows(nil), OK, "1 thing below /usr that no package brought: bin/x;", "")
}

func TestShowsLinksAndFolders(t *testing.T) {
	h := madeUp(t, 1000, map[string]string{"usr/bin/real": "", "var/lib/dpkg/info/x.list": "/usr/bin/real\n"})
	for name, target := range map[string]string{"editor": "/etc/alternatives/editor", "mine": "real"} {
		if err := os.Symlink(target, h.path("usr/bin/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(h.path("usr/local/share/empty/folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	says(t, h.shows(nil), OK, "1 thing below /usr that no package brought: bin/mine;", "")
}

func TestShowsMany(t *testing.T) {
	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("usr/local/bin/%d", i)] = ""
	}
	f := madeUp(t, 1000, files).shows(nil)
	says(t, f, OK, "10 things below /usr that no package brought: local/bin/0, ", "")
	if strings.Contains(f.Detail, "local/bin/8") || !strings.Contains(f.Detail, "local/bin/7, …") {
		t.Errorf("more is listed than people read: %s", f.Detail)
	}
}

// TestShowsAtTheLimit: the look ends at its bound, and says so.
func TestShowsAtTheLimit(t *testing.T) {
	l := &look{usr: t.TempDir(), names: maxNames - 1}
	write(t, filepath.Join(l.usr, "a"), "")
	write(t, filepath.Join(l.usr, "b"), "")
	l.walk("", 1)
	if len(l.found) != 1 || l.found[0] != "a" || l.names != maxNames+1 {
		t.Errorf("found %v after %d names, want the one within the limit", l.found, l.names)
	}
	l = &look{usr: l.usr, inner: maxInner}
	write(t, filepath.Join(l.usr, "c", "id_rsa"), "")
	l.walk("", 1)
	if len(l.keys) != 0 || len(l.found) != 3 {
		t.Errorf("found %v and the keys %v, want no look within", l.found, l.keys)
	}
}

func TestShowsKeys(t *testing.T) {
	noConfig(t)
	files := map[string]string{
		"usr/share/mine/id_rsa": "", "usr/share/own.key": "", "usr/local/bin/tool": "", "usr/local/share/tls.pem": pem, "usr/lib/x/credentials": "",
		"var/lib/dpkg/info/x.list": "/usr/lib/x/credentials\n/usr/lib\n/usr/lib/x\n/usr/share\n", // a package's own is none
	}
	const hide = `hide = ["local/share/tls.pem", "share/mine/id_rsa", "share/own.key"]`
	const detail = "4 things below /usr that no package brought; some look like keys: local/share/tls.pem, share/mine/id_rsa, share/own.key"
	h := madeUp(t, 1000, files)
	says(t, h.shows(nil), Limited, detail, `printf '%s\n' '[sandbox.host]' '`+hide+`' | install -D -m 600 /dev/stdin ~/.config/cloche/config.toml`)
	h.setenv(map[string]string{"XDG_CONFIG_HOME": "/x y"})
	says(t, h.shows(nil), Limited, detail, `printf '%s\n' '[sandbox.host]' '`+hide+`' | install -D -m 600 /dev/stdin '/x y/cloche/config.toml'`)
	says(t, madeUp(t, 0, files).shows(nil), Limited, detail, `printf '%s\n' '[sandbox.host]' '`+hide+`' | install -D -m 600 /dev/stdin /etc/cloche/config.toml`)
	h.o.Config = h.path("usr/local/bin/tool")
	f := h.shows(nil)
	says(t, f, Limited, detail, "")
	if !strings.Contains(f.Why, `add "local/share/tls.pem", "share/mine/id_rsa", "share/own.key" to hide in [sandbox.host]`) {
		t.Errorf("found %+v", f)
	}
	says(t, h.shows([]string{"share/mine/*", "share/own.key", "local/share/*"}), OK, "local/bin/tool", "")
}

// TestShowsStrangeNames: names are shown so that they do nothing to a terminal,
// and hidden so that they hide nothing else.
func TestShowsStrangeNames(t *testing.T) {
	noConfig(t)
	h := madeUp(t, 0, map[string]string{"usr/bin/a\x1b[2J\nb": ""})
	says(t, h.shows(nil), OK, `1 thing below /usr that no package brought: "bin/a\x1b[2J\nb";`, "")
	h = madeUp(t, 0, map[string]string{"usr/share/x[1]*.key": ""})
	says(t, h.shows(nil), Limited, "look like keys: share/x[1]*.key",
		`printf '%s\n' '[sandbox.host]' 'hide = ["share/x\\[1]\\*.key"]' | install -D -m 600 /dev/stdin /etc/cloche/config.toml`)
	says(t, h.shows([]string{`share/x\[1]\*.key`}), OK, "nothing", "")
}

func TestFonts(t *testing.T) {
	const none = "usr/share/fonts/opentype/NotoSansCJK-Bold.ttc"
	says(t, madeUp(t, 1000, nil).fonts(), OK, "1 font file, some for Chinese", "")
	says(t, madeUp(t, 1000, map[string]string{none: absent}).fonts(), Limited, "there are none", "sudo apt-get install --no-install-recommends fonts-dejavu-core fonts-noto-cjk")
	says(t, madeUp(t, 0, map[string]string{none: absent, "usr/share/fonts/d/DejaVuSans.ttf": "", "usr/share/fonts/README": ""}).fonts(), Limited,
		"1 font file, none for Chinese, Japanese or Korean: such labels of figures come out as boxes", "apt-get install --no-install-recommends fonts-noto-cjk")
	says(t, madeUp(t, 0, map[string]string{none: absent, "usr/local/share/fonts/wqy-microhei.ttc": ""}).fonts(), OK, "1 font file, some", "")
}
