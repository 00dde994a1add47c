package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
)

func ownNamespaces(t *testing.T, r sandbox.Runner) {
	kinds := []string{"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"}
	var got map[string]string
	Start(t, r, Spec()).JSON(`
import json, os
print(json.dumps({n: os.readlink("/proc/self/ns/" + n) for n in os.listdir("/proc/self/ns")}))
`, &got)
	for _, kind := range kinds {
		host, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(got[kind], kind+":[") || got[kind] == host {
			t.Errorf("%s namespace = %q, want one other than the host's %q", kind, got[kind], host)
		}
	}
}

func onlyLoopback(t *testing.T, r sandbox.Runner) {
	type network struct {
		Interfaces []string
		Own        string
		Out        map[string]string
	}
	var got network
	Start(t, r, Spec()).JSON(`
import errno, json, socket

def dial(family, address):
    with socket.socket(family) as s:
        s.settimeout(3)
        try:
            s.connect(address)
        except OSError as e:
            return errno.errorcode.get(e.errno, repr(e))
        return "connected"

listener = socket.create_server(("127.0.0.1", 0))
print(json.dumps({
    "Interfaces": [name for _, name in socket.if_nameindex()],
    "Own": dial(socket.AF_INET, listener.getsockname()),
    "Out": {
        "IPv4": dial(socket.AF_INET, ("192.0.2.1", 80)),
        "metadata": dial(socket.AF_INET, ("169.254.169.254", 80)),
        "IPv6": dial(socket.AF_INET6, ("2001:db8::1", 80)),
    },
}))
`, &got)
	want := network{
		Interfaces: []string{"lo"},
		Own:        "connected",
		Out:        map[string]string{"IPv4": "ENETUNREACH", "metadata": "ENETUNREACH", "IPv6": "ENETUNREACH"},
	}
	if got.Out["IPv6"] == "EADDRNOTAVAIL" { // lo has no address of version 6
		want.Out["IPv6"] = "EADDRNOTAVAIL"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("network (-want +got):\n%s", diff)
	}
}

func readOnlyRoot(t *testing.T, r sandbox.Runner) {
	var got map[string]string
	Start(t, r, Spec()).JSON(`
import errno, json, os

def write(name, flags=os.O_CREAT | os.O_EXCL):
    try:
        os.close(os.open(name, os.O_WRONLY | flags))
    except OSError as e:
        return errno.errorcode[e.errno]
    return "written"

folders = ["/"] + ["/" + n for n in os.listdir("/") if os.path.isdir("/" + n)] + ["/.cloche", "/.hidden", "/usr/bin", "/var/lib"]
files = ["/etc/passwd", "/etc/ld.so.cache", "/.cloche/parent.py", "/.cloche/step", "/usr/bin/python3.11"]
kernel = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger"]
results = {d: write(d + "/x") for d in folders}
results |= {f: write(f, 0) for f in files + kernel if os.path.exists(f)}
for action in os.remove, os.chmod:
    try:
        action(*(("/dev/null",) if action is os.remove else ("/etc/passwd", 0o777)))
        results[action.__name__] = "done"
    except OSError as e:
        results[action.__name__] = errno.errorcode[e.errno]
print(json.dumps(results))
`, &got)
	for name, result := range got {
		want := "EROFS"
		if name == "/work" || name == "/tmp" || name == "/workspace" {
			continue // places, and the link to what will be in one
		}
		if name == "/proc" {
			want = "ENOENT" // what the kernel says of new names there
		}
		if result != want && result != "EACCES" && result != "EPERM" {
			t.Errorf("writing %s: %s, want %s", name, result, want)
		}
	}
	if got["/tmp"] != "written" || got["/work"] != "written" || got["/"] != "EROFS" {
		t.Errorf("writing /tmp, /work, /: %s, %s, %s, want written, written, EROFS", got["/tmp"], got["/work"], got["/"])
	}
}

// A mount is a line of /proc/self/mountinfo (proc(5)).
type mount struct{ root, point, options, kind string }

// mountsOf returns the mounts of a sandbox.
func mountsOf(t *testing.T, b *Box) []mount {
	t.Helper()
	return parseMounts(t, b.Print(`print(open("/proc/self/mountinfo").read(), end="")`))
}

func parseMounts(t *testing.T, mountinfo string) []mount {
	t.Helper()
	var all []mount
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if dash < 6 || len(f) < dash+3 {
			t.Fatalf("strange line of mountinfo: %q", line)
		}
		all = append(all, mount{root: f[3], point: f[4], options: f[5], kind: f[dash+1]})
	}
	return all
}

// rootOf returns the name that path has on its own file system: path itself
// where that is the root's.
func rootOf(mounts []mount, path string) string {
	var on mount
	for _, m := range mounts {
		below := m.point == "/" || path == m.point || strings.HasPrefix(path, m.point+"/")
		if below && len(m.point) >= len(on.point) {
			on = m // of two at one point, the later covers the earlier
		}
	}
	return filepath.Join(on.root, strings.TrimPrefix(path, on.point))
}

func harmlessMounts(t *testing.T, r sandbox.Runner) {
	seen := map[string]bool{}
	for _, m := range mountsOf(t, Start(t, r, Spec())) {
		seen[m.point] = true
		options := strings.Split(m.options, ",")
		want := []string{"nosuid"}
		device := strings.HasPrefix(m.point, "/dev/") && m.point != "/dev/shm"
		place := slices.Contains(rootfs.Places, m.point)
		masked := strings.HasPrefix(m.point, "/proc/") && (m.root == "/null" || m.kind == "tmpfs")
		switch {
		case masked && m.root == "/null":
		case masked:
			want = []string{"ro"} // an empty folder
		case device:
			want = append(want, "noexec")
		case place, m.point == "/proc":
			want = append(want, "nodev")
		default:
			want = append(want, "nodev", "ro")
		}
		for _, o := range want {
			if !slices.Contains(options, o) {
				t.Errorf("mount at %s has options %s, want %s among them", m.point, m.options, o)
			}
		}
	}
	for _, point := range append([]string{"/", "/usr", "/proc", "/dev/null"}, rootfs.Places...) {
		if !seen[point] {
			t.Errorf("nothing is mounted at %s", point)
		}
	}
}

// silentMounts checks which folders of the host mounts tell of: those that are
// meant to be seen, by the names that they have inside too. Where the host's /usr
// is itself a folder of another file system, the kernel names that folder.
func silentMounts(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	host, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	usr := rootOf(parseMounts(t, string(host)), "/usr")
	for _, m := range mountsOf(t, b) {
		known := m.root == "/" || m.root == m.point || strings.HasPrefix(m.root, "/.hidden/") || m.root == "/null" ||
			m.root == "/dev" || "/dev"+m.root == m.point || "/proc"+m.root == m.point || m.point == "/usr" && m.root == usr
		if !known && (m.kind != "tmpfs" || !strings.HasPrefix(m.root, "/root")) {
			t.Errorf("mount at %s tells of %s on the host", m.point, m.root)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := b.Print(`
import glob
for name in ["/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/cgroup", "/proc/self/maps"] + glob.glob("/proc/[0-9]*/c[mg][dr]*"):
    print(name, open(name).read())
`)
	for _, told := range []string{here, os.TempDir() + "/", "/home/", "/var/lib/", "/cloche/", "test-"} {
		if strings.Contains(text, told) {
			t.Errorf("/proc tells of %q: %s", told, text)
		}
	}
}

func noPrivilege(t *testing.T, r sandbox.Runner) {
	want := map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	}
	b := Start(t, r, Spec())
	for _, pid := range []string{"self", "1"} {
		var got map[string]string
		b.JSON(fmt.Sprintf(`
import json
status = dict(line.split(":", 1) for line in open("/proc/%s/status"))
print(json.dumps({k: status[k].strip() for k in %q.split()}))
`, pid, strings.Join(keys(want), " ")), &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("/proc/%s/status (-want +got):\n%s", pid, diff)
		}
	}
}

func keys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func oneUser(t *testing.T, r sandbox.Runner) {
	type user struct {
		UIDs, GIDs, Groups []int
		Name, Home, PID1   string
	}
	var got user
	Start(t, r, Spec()).JSON(`
import json, os, pwd
print(json.dumps({
    "UIDs": os.getresuid(), "GIDs": os.getresgid(), "Groups": [g for g in os.getgroups() if g not in (1000, 65534)],
    "Name": pwd.getpwuid(os.getuid()).pw_name, "Home": os.path.expanduser("~"),
    "PID1": [line for line in open("/proc/1/status") if line.startswith("Uid:")][0].split()[1],
}))
`, &got)
	want := user{[]int{1000, 1000, 1000}, []int{1000, 1000, 1000}, []int{}, "agent", "/tmp/home", "1000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
}

func descriptors(t *testing.T, r sandbox.Runner) {
	var got map[string]string
	Start(t, r, Spec()).JSON(`
import json, os
def kind(fd):
    try:
        os.fstat(fd)
    except OSError:
        return None
    return os.readlink("/proc/self/fd/%d" % fd).split(":")[0]
print(json.dumps({fd: kind(fd) for fd in range(1 << 16) if kind(fd)}))
`, &got)
	if diff := cmp.Diff(map[string]string{"0": "/dev/null", "1": "pipe", "2": "pipe"}, got); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s", diff)
	}
}

func namesOfTheHost(t *testing.T, r sandbox.Runner) {
	var got map[string]string
	b := Start(t, r, Spec())
	b.JSON(`
import json, os, socket
print(json.dumps({"uname": os.uname().nodename, "socket": socket.gethostname(), "file": open("/etc/hostname").read()}))
`, &got)
	if diff := cmp.Diff(map[string]string{"uname": "sandbox", "socket": "sandbox", "file": "sandbox\n"}, got); diff != "" {
		t.Errorf("host names (-want +got):\n%s", diff)
	}
	if got := b.Print(`print(open("/proc/sys/kernel/random/boot_id").read(), end="")`); got != "" {
		t.Errorf("boot id = %q, want nothing", got)
	}
}

// hiddenProc looks at what of /proc tells of the host.
func hiddenProc(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	got := b.Print(`
import os
for name in "kallsyms kcore keys key-users modules interrupts cmdline partitions diskstats sched_debug timer_list slabinfo vmallocinfo kmsg iomem devices".split():
    try:
        with open("/proc/" + name, "rb") as f:
            if f.read(1):
                print(name)
    except OSError:
        pass
for name in "acpi asound scsi pressure".split():
    if os.path.isdir("/proc/" + name) and os.listdir("/proc/" + name):
        print(name)
print(*[p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())])
print(*[p for p in os.listdir("/sys")])
`)
	if got != "\n\n" {
		t.Errorf("to be seen of the host: %q, want nothing", got)
	}
}

func noEnvironment(t *testing.T, newRunner func(t *testing.T) sandbox.Runner) {
	const secret = "a-value-that-stays-with-the-server"
	t.Setenv("CLOCHE_TEST_SECRET", secret)
	b := Start(t, newRunner(t), Spec())
	var names []string
	b.JSON(`
import json, os
print(json.dumps(sorted(os.environ)))
`, &names)
	want := []string{
		"HOME", "LANG", "LOGNAME", "MPLBACKEND", "MPLCONFIGDIR", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH",
		"PYTHONDONTWRITEBYTECODE", "SHELL", "TERM", "TMPDIR", "USER", "WORKSPACE_DIR",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names in the environment (-want +got):\n%s", diff)
	}
	text := b.Print(`
import glob
for name in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        print(open(name).read())
    except PermissionError:
        pass
`)
	if strings.Contains(text, secret) || !strings.Contains(text, "WORKSPACE_DIR") {
		t.Errorf("the processes' environments hold the server's secret, or nothing: %q", text)
	}
}
