package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/sandbox"
)

// whatIsThere prints what the places hold besides the call's own code, with mode
// and owner of each place.
const whatIsThere = `
import json, os
print(json.dumps({d: [sorted(set(os.listdir(d)) - {".cell.py"}), "%o" % (os.stat(d).st_mode & 0o7777), os.stat(d).st_uid]
                  for d in ("/work", "/tmp", "/tmp/home", "/dev/shm")}))
`

// nothingThere is what whatIsThere prints of places that are as new.
const nothingThere = `{"/work": [[], "755", 1000], "/tmp": [["home"], "1777", 1000], "/tmp/home": [[], "755", 1000], "/dev/shm": [[], "1777", 1000]}` + "\n"

func emptyPlaces(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	if diff := cmp.Diff(nothingThere, b.Print(whatIsThere)); diff != "" {
		t.Errorf("places of a new sandbox (-want +got):\n%s", diff)
	}
	if got := b.Print("import os, tempfile; print(os.getcwd(), tempfile.gettempdir())"); got != "/work /tmp\n" {
		t.Errorf("working and temporary directory = %q, want /work /tmp", got)
	}
}

func refreshEmpties(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	b.Print(`
import os, socket
for d in "/work", "/tmp", "/tmp/home", "/dev/shm":
    open(d + "/file", "w").close()
    os.makedirs(d + "/folder/below")
    os.symlink("/", d + "/link")
    os.mkfifo(d + "/fifo")
    socket.socket(socket.AF_UNIX).bind(d + "/socket")
    os.chmod(d + "/folder", 0)
for d in "/work", "/tmp/home", "/tmp", "/dev/shm":
    os.chmod(d, 0)
`)
	if got := b.Run(whatIsThere); got.Out == nothingThere {
		t.Errorf("without Refresh: %+v, want what the call before has left", got)
	}
	b.Clean()
	if diff := cmp.Diff(nothingThere, b.Print(whatIsThere)); diff != "" {
		t.Errorf("places after Refresh (-want +got):\n%s", diff)
	}
	b.Clean()
	if diff := cmp.Diff(nothingThere, b.Print(whatIsThere)); diff != "" {
		t.Errorf("places after Refresh of clean ones (-want +got):\n%s", diff)
	}
}

func refreshRemovesSystemV(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	const count = `
for kind in "shm", "sem", "msg":
    with open("/proc/sysvipc/" + kind) as f:
        print(kind, len(f.readlines()) - 1)
`
	b.Print(`
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for i in range(3):
    for call, args in ("shmget", (100 + i, 4096, 0o1600)), ("semget", (100 + i, 1, 0o1600)), ("msgget", (100 + i, 0o1600)):
        assert getattr(libc, call)(*args) >= 0, (call, os.strerror(ctypes.get_errno()))
`)
	if got, want := b.Print(count), "shm 3\nsem 3\nmsg 3\n"; got != want {
		t.Fatalf("System V objects before Refresh: %q, want %q", got, want)
	}
	b.Clean()
	if got, want := b.Print(count), "shm 0\nsem 0\nmsg 0\n"; got != want {
		t.Errorf("System V objects after Refresh: %q, want %q", got, want)
	}
}

// afterFailure: whatever comes of a call, the next one works as ever.
func afterFailure(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	for _, f := range []struct {
		name, code string
		limit      time.Duration
		want       func(Result) bool
	}{
		{"exception", "1/0", Limit, func(r Result) bool { return r.Code == 1 && strings.Contains(r.Err, "ZeroDivisionError") }},
		{"exit", "import os; os._exit(3)", Limit, func(r Result) bool { return r.Code == 3 }},
		{"signal", "import os; os.kill(os.getpid(), 9)", Limit, func(r Result) bool { return r.Signal == 9 && !r.OutOfMemory }},
		{"time limit", "while True: pass", time.Second, func(r Result) bool { return r.TimedOut }},
		{"full disk", "open('/work/x', 'wb').write(bytes(10**9))", Limit, func(r Result) bool { return r.Code == 1 && strings.Contains(r.Err, "OSError") }},
		{"left behind", "import subprocess; subprocess.Popen(['sleep', '1000'])", Limit, func(r Result) bool { return r.Plain() && r.Code == 0 }},
	} {
		if got := b.RunFor(f.limit, f.code); !f.want(got) || got.Lost != "" {
			t.Errorf("%s: %+v", f.name, got)
		}
		b.Clean()
		b.Works()
		if got := b.Print(whatIsThere) + b.Print(alone); got != nothingThere+"[]\n" {
			t.Errorf("left after %s: %s", f.name, got)
		}
	}
}

// marks makes things that another sandbox must not see, if make is there, and
// prints which of them are to be seen.
const marks = `
import ctypes, glob, json, os, socket, subprocess, time
libc = ctypes.CDLL(None, use_errno=True)
def connects(family, address):
    with socket.socket(family) as s:
        try:
            s.connect(address)
        except OSError:
            return False
    return True
def processes():
    return sum("4242" in open(p).read() for p in glob.glob("/proc/[0-9]*/cmdline"))
if make:
    for name in "/work/mark", "/tmp/mark", "/dev/shm/mark":
        open(name, "w").close()
    kept = [socket.socket(socket.AF_UNIX), socket.create_server(("127.0.0.1", 4242))]
    kept[0].bind("\0mark")
    kept[0].listen()
    libc.shmget(4242, 4096, 0o1666)
    subprocess.Popen(["sleep", "4242"])
    while not processes():
        time.sleep(0.01)  # its command shows a moment after its start
print(json.dumps({
    "files": glob.glob("/work/mark") + glob.glob("/tmp/mark") + glob.glob("/dev/shm/mark"),
    "abstract socket": connects(socket.AF_UNIX, "\0mark"),
    "loopback": connects(socket.AF_INET, ("127.0.0.1", 4242)),
    "System V": libc.shmget(4242, 0, 0) >= 0,
    "process": processes(),
}), flush=True)
`

func apart(t *testing.T, r sandbox.Runner) {
	const (
		all  = `{"files": ["/work/mark", "/tmp/mark", "/dev/shm/mark"], "abstract socket": true, "loopback": true, "System V": true, "process": 1}`
		none = `{"files": [], "abstract socket": false, "loopback": false, "System V": false, "process": 0}`
	)
	first, second := Start(t, r, Spec()), Start(t, r, Spec())
	stop := first.Background("}\n", "make = True\n"+marks+"time.sleep(100)")
	if got := strings.TrimSpace(second.Print("make = False\n" + marks)); got != none {
		t.Errorf("the second sandbox sees %s, want %s", got, none)
	}
	if got := stop(); strings.TrimSpace(got.Out) != all {
		t.Errorf("the first sandbox itself sees %s, want %s", got.Out, all)
	}
}
