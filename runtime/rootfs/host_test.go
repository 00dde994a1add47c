package rootfs_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
	"cloche.dev/cloche/runtime/shim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRunner returns a Runner with the real shim; it is closed with the test.
func newRunner(t *testing.T) sandbox.Runner {
	t.Helper()
	need.Namespaces(t)
	need.Python(t)
	r := shim.New(shim.Options{
		Path: need.Shim(t), Instance: "test-" + strings.ToLower(rand.Text()),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Stderr: t.Output(),
	})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the runner: %v", err)
		}
	})
	return r
}

func TestTop(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		var got map[string]string
		sandboxtest.Start(t, newRunner(t), sandboxtest.Spec()).JSON(`
import json, os
def kind(name):
    path = "/" + name
    if os.path.islink(path):
        return "-> " + os.readlink(path)
    return "%s, %d" % (oct(os.stat(path).st_mode & 0o7777), len(os.listdir(path)) if name in ("home", "root", "opt", "run", "srv", "sys", "var", "mnt") else -1)
print(json.dumps({name: kind(name) for name in os.listdir("/")}))
`, &got)
		want := map[string]string{
			".cloche": "0o755, -1", ".hidden": "0o555, -1", "dev": "0o755, -1", "etc": "0o755, -1", "home": "0o755, 0", "mnt": "0o755, 1", "opt": "0o755, 0",
			"proc": "0o555, -1", "root": "0o755, 0", "run": "0o755, 0", "srv": "0o755, 0", "sys": "0o755, 0", "tmp": "0o1777, -1", "usr": "0o755, -1",
			"var": "0o755, 4", "work": "0o755, -1", "workspace": "-> /work/workspace",
		}
		for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
			if target, err := os.Readlink("/" + name); err == nil {
				want[name] = "-> " + target
			} else if _, err := os.Stat("/" + name); err == nil {
				want[name] = "0o755, -1"
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the root directory (-want +got):\n%s", diff)
		}
	})
}

func TestEtc(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		b := sandboxtest.Start(t, newRunner(t), sandboxtest.Spec())
		var names []string
		b.JSON(`
import json, os
print(json.dumps(sorted(os.path.join(d, f)[5:] for d, folders, files in os.walk("/etc") for f in folders + files)))
`, &names)
		there := map[string]bool{}
		for _, name := range names {
			there[name] = true
		}
		for _, name := range []string{
			"shadow", "shadow-", "gshadow", "passwd-", "sudoers", "ssh", "machine-id", "crontab", "fstab", "ssl/private", "ssl/certs/ssl-cert-snakeoil.pem",
			"environment", "profile", "apt", "cloche", "docker", "kubernetes", "NetworkManager",
		} {
			if there[name] {
				t.Errorf("/etc/%s is there", name)
			}
		}
		for _, name := range []string{"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "alternatives", "ssl"} {
			if !there[name] {
				t.Errorf("/etc/%s is not there", name)
			}
		}
		for _, name := range []string{"ld.so.cache", "os-release", "ssl/certs/ca-certificates.crt", "mime.types", "localtime"} {
			if _, err := os.Stat("/etc/" + name); err == nil && !there[name] {
				t.Errorf("/etc/%s is not there, though it is on the host", name)
			}
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		told := b.Print(strings.ReplaceAll(`
import os, re
for d, folders, files in os.walk("/etc"):
    for name in files:
        path = os.path.join(d, name)
        if os.path.islink(path):
            continue  # to what is seen anyway, or is not there
        text = open(path, "rb").read()
        if b"PRIVATE KEY" in text:
            print(path, "holds a private key")
        if len("HOST") > 4 and re.search(rb"\bHOST\b", text):
            print(path, "holds the host's name")
`, "HOST", host))
		if told != "" {
			t.Errorf("/etc: %s", told)
		}
	})
}

// TestUsable: what programs of /usr need of the rest is there.
func TestUsable(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		b := sandboxtest.Start(t, newRunner(t), sandboxtest.Spec())
		var got map[string]string
		b.JSON(`
import ctypes.util, json, os, pwd, socket, ssl, subprocess, zoneinfo
def run(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True).stdout.strip()
print(json.dumps({
    "shell": run("echo $((6*7)) | cat; id -un"),
    "devices": run("head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x > /dev/null && echo ok"),
    "full": run("echo x > /dev/full || echo full 2>/dev/null"),
    "descriptors": run("echo x | cat /dev/stdin; echo y > /dev/stdout; ls /dev/fd | wc -l"),
    "certificates": str(ssl.create_default_context().cert_store_stats()["x509_ca"] > 0 or not os.path.exists("/etc/ssl/certs/ca-certificates.crt")),
    "libraries": str(run("/sbin/ldconfig -p | wc -l") > "1"),
    "time zone": str(zoneinfo.ZoneInfo("Europe/Berlin")),
    "localhost": socket.gethostbyname("localhost"),
    "users": ",".join(sorted(u.pw_name for u in pwd.getpwall())),
    "temporary": run("mktemp | cut -c 1-9; ls -ld /var/tmp | sed 's/.*-> //'"),
    "links": os.path.realpath("/mnt/data") + " " + os.path.realpath("/workspace"),
}))
`, &got)
		want := map[string]string{
			"shell": "42\nagent", "devices": "4\n4\nok", "full": "full", "descriptors": "x\ny\n4", "certificates": "True", "libraries": "True",
			"time zone": "Europe/Berlin", "localhost": "127.0.0.1", "users": "agent,nobody,root", "temporary": "/tmp/tmp.\n../tmp",
			"links": "/work/workspace /work/workspace",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in the sandbox (-want +got):\n%s", diff)
		}
	})
}

// TestHide: what an administrator hides is empty, and what lies beside it is not.
func TestHide(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		spec := sandboxtest.Spec()
		spec.Hide = []string{"share/common-licenses", "share/perl*", "lib/python3/dist-packages/*.py", "no/such/thing", "../etc/passwd", "share/doc/../zoneinfo"}
		need.Files(t, "/usr/share/common-licenses", "/usr/share/zoneinfo")
		r := newRunner(t)
		const look = `
import glob, json, os
def size(path):
    try:
        return len(os.listdir(path)) if os.path.isdir(path) else os.path.getsize(path)
    except OSError:
        return -1
places = ["/usr/share/common-licenses", "/usr/share/zoneinfo", "/usr/share/doc", "/etc/passwd", "/usr/local/etc", "/usr/local/src", "/usr/local/sbin", "/usr/src"]
print(json.dumps({p: size(p) for p in places} | {"modules": sum(size(p) for p in glob.glob("/usr/lib/python3/dist-packages/*.py"))}))
`
		var got, plain map[string]int
		b := sandboxtest.Start(t, r, spec)
		b.JSON(look, &got)
		sandboxtest.Start(t, r, sandboxtest.Spec()).JSON(look, &plain)
		for _, name := range []string{"/usr/share/common-licenses", "/usr/share/zoneinfo", "modules"} {
			if got[name] != 0 || plain[name] <= 0 && name != "modules" {
				t.Errorf("%s holds %d when hidden and %d when not, want 0 and more", name, got[name], plain[name])
			}
		}
		for _, name := range []string{"/usr/local/etc", "/usr/local/src", "/usr/local/sbin", "/usr/src"} {
			if plain[name] > 0 {
				t.Errorf("%s holds %d, want nothing", name, plain[name])
			}
		}
		for _, name := range []string{"/usr/share/doc", "/etc/passwd"} {
			if got[name] != plain[name] {
				t.Errorf("%s holds %d and %d, want no difference", name, got[name], plain[name])
			}
		}
		// Nothing of it can be had in another way.
		if out := b.Run("import os; os.rmdir('/usr/share/common-licenses')"); out.Code != 1 {
			t.Errorf("a hidden folder was removed: %+v", out)
		}
	})
}

// TestHideTwice: what is in a hidden folder may be hidden too, as a key in
// /usr/local/etc is, and what lies beside the folder is seen.
func TestHideTwice(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		spec := sandboxtest.Spec()
		spec.Hide = []string{"share/common-licenses", "share/common-licenses/*", "share/zoneinfo/*", "share/zoneinfo"}
		need.Files(t, "/usr/share/common-licenses/GPL-3", "/usr/share/zoneinfo/UTC")
		var got []int
		sandboxtest.Start(t, newRunner(t), spec).JSON(`
import json, os
print(json.dumps([len(os.listdir("/usr/share/" + name)) for name in ("common-licenses", "zoneinfo", "doc")]))
`, &got)
		if len(got) != 3 || got[0] != 0 || got[1] != 0 || got[2] == 0 {
			t.Errorf("the folders hold %v, want 0, 0 and more", got)
		}
	})
}

func TestStrangePatterns(t *testing.T) {
	r := newRunner(t)
	for _, hide := range [][]string{{"["}, {"share/[a-"}, {"\x00"}} {
		spec := sandboxtest.Spec()
		spec.Hide = hide
		p, err := pydriver.Start(t.Context(), r, spec, nil)
		if err == nil {
			if hide[0] != "\x00" {
				t.Errorf("Start with hide %q = nil, want an error", hide)
			}
			if err := p.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	}
	sandboxtest.Start(t, r, sandboxtest.Spec()).Works()
}

// TestKeyLikeFilesAreEmpty: files of this machine's /usr/local whose names look
// like those of secrets, if it has any.
func TestKeyLikeFilesAreEmpty(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("/usr/local/share", "cloche-test-") //nolint:usetesting // it has to be where sandboxes look
	if err != nil {
		t.Fatalf("/usr/local cannot be written: %v", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".env", "id_rsa", ".ssh/config", "plain.txt"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".env", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got := sandboxtest.Start(t, newRunner(t), sandboxtest.Spec()).Print(strings.ReplaceAll(`
import os
print([(f, os.path.getsize(os.path.join(d, f))) for d, folders, files in sorted(os.walk("DIR")) for f in sorted(files)])
`, "DIR", dir))
	if want := "[('.env', 0), ('id_rsa', 0), ('link', 0), ('plain.txt', 7)]\n"; got != want {
		t.Errorf("sizes in the sandbox = %s, want %s", got, want)
	}
}
