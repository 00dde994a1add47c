package sandboxtest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox"
)

// noLimits: what is not asked for is the smallest there is, and works.
func noLimits(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, sandbox.Spec{Image: "host"})
	b.Works()
	if got := b.Run("x = bytearray(400_000_000); print(len(x))"); got.Out != "" || got.Plain() && got.Code == 0 {
		t.Errorf("400 MB where no memory was asked for: %+v, want a limit", got)
	}
	if got := b.Run("open('/work/x', 'wb').write(bytes(10_000_000))"); got.Plain() && got.Code == 0 {
		t.Errorf("10 MB in /work where none was asked for: %+v, want a limit", got)
	}
	if got := b.Run("import os\nfor _ in range(30):\n    if os.fork() == 0: os.read(0, 1) or __import__('time').sleep(100)"); got.Plain() && got.Code == 0 {
		t.Errorf("30 processes where none were asked for: %+v, want a limit", got)
	}
	b.Works()
}

func processes(t *testing.T, r sandbox.Runner) {
	spec := Spec()
	spec.Limits.PIDs = 50
	b := Start(t, r, spec)
	var got struct {
		Processes, Threads int
		Error              string
	}
	b.JSON(`
import errno, json, os, signal, threading, time
processes, error = 0, ""
while processes < 200:
    try:
        pid = os.fork()
    except OSError as e:
        error = errno.errorcode[e.errno]
        break
    if pid == 0:
        signal.pause()
    processes += 1
os.kill(-1, signal.SIGKILL) if False else [os.kill(int(p), 9) for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
threads, stop = 0, threading.Event()
try:
    while threads < 200:
        threading.Thread(target=stop.wait).start()
        threads += 1
except RuntimeError:
    pass
stop.set()
print(json.dumps({"Processes": processes, "Threads": threads, "Error": error}))
`, &got)
	// The parent and the process itself count too.
	if got.Error != "EAGAIN" || got.Processes > 48 || got.Processes < 40 {
		t.Errorf("processes until %q: %d, want EAGAIN after 48 or a few less", got.Error, got.Processes)
	}
	if got.Threads > 48 || got.Threads < 40 {
		t.Errorf("threads = %d, want 48 or a few less", got.Threads)
	}
	b.Works()
}

func forkBomb(t *testing.T, r sandbox.Runner) {
	spec := Spec()
	spec.Limits.PIDs = 200
	b := Start(t, r, spec)
	got := b.RunFor(2*time.Second, `
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
`)
	if !got.TimedOut || got.Lost != "" {
		t.Errorf("fork bomb: %+v, want the time limit", got)
	}
	const most = 7 * time.Second // 2 s, half a second of grace, and the end of 200 processes
	if got.Duration > most {
		t.Errorf("fork bomb took %v, want at most %v", got.Duration, most)
	}
	b.Works()
	if got := b.Print(alone); got != "[]\n" {
		t.Errorf("processes left: %s", got)
	}
}

// alone prints the processes besides the parent and the one that asks.
const alone = `
import os
print([p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())])
`

func processorTime(t *testing.T, r sandbox.Runner) {
	if watched(t, Start(t, r, Spec())) {
		afterOthers(t, r)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("processors are limited by control groups alone")
	}
	need.Cgroup(t)
	spec := Spec()
	spec.Limits.CPUs = 0.5
	var used float64
	Start(t, r, spec).JSON(`
import json, os, resource, time
end = time.monotonic() + 2
pid = os.fork()
while time.monotonic() < end:
    pass
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
          for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
`, &used)
	// Twice a period of 0.1 s may be had beyond what two seconds give.
	if used > 1.25 {
		t.Errorf("two processes used %.2f s of processor time in 2 s at 0.5 processors, want 1", used)
	}
}

// afterOthers: where processor time has no limit, everything in a sandbox goes
// after what is as important as its server, and cannot change that.
func afterOthers(t *testing.T, r sandbox.Runner) {
	ours, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Nice, Parent int
		Policy       int
		Raised       []string
	}
	b := Start(t, r, Spec())
	b.JSON(`
import json, os, resource
def raised(call, *args):
    try:
        call(*args)
    except (OSError, ValueError):
        return []
    return [call.__name__]
nice = os.getpriority(os.PRIO_PROCESS, 0)
print(json.dumps({
    "Nice": nice, "Parent": os.getpriority(os.PRIO_PROCESS, 1), "Policy": os.sched_getscheduler(0),
    "Raised": raised(os.setpriority, os.PRIO_PROCESS, 0, nice - 1)
        + raised(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
        + raised(resource.setrlimit, resource.RLIMIT_NICE, (40, 40)),
}))
`, &got)
	want := got
	want.Nice = min(int(ours.Nice)+10, 19)
	want.Parent, want.Policy, want.Raised = want.Nice, 3, []string{} // SCHED_BATCH
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("priority beside that of a server at %d (-want +got):\n%s", ours.Nice, diff)
	}
	// The kernel lets sessions be lowered ten times a second, by anybody.
	end := time.Now().Add(Limit)
	for {
		session := b.Print(`
try:
    print(open("/proc/self/autogroup").read().split("nice ")[1].strip())
except OSError:
    print("none")
`)
		if session == fmt.Sprintln(want.Nice) || session == "none\n" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("sessions of calls have niceness %s, want %d", session, want.Nice)
		}
	}
}

func sizes(t *testing.T, r sandbox.Runner) {
	spec := Spec()
	const mib = 1 << 20
	spec.Limits.WorkBytes, spec.Limits.TmpBytes, spec.Limits.ShmBytes = 6*mib, 4*mib, 2*mib
	b := Start(t, r, spec)
	var got map[string]int
	b.JSON(`
import errno, json
def fill(folder):
    "the bytes that go into files of folder"
    written = 0
    try:
        for i in range(100):
            with open("%s/%d" % (folder, i), "wb", buffering=0) as f:
                for _ in range(256):
                    written += f.write(bytes(4096))
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
    return written
print(json.dumps({d: fill(d) for d in ("/work", "/tmp", "/dev/shm")}))
`, &got)
	// Exactly as much fits, and not a page more; the code itself stands on a page
	// of /tmp.
	if diff := cmp.Diff(map[string]int{"/work": 6 * mib, "/tmp": 4*mib - 4096, "/dev/shm": 2 * mib}, got); diff != "" {
		t.Errorf("bytes that fit (-want +got):\n%s", diff)
	}
	b.Clean()
	b.Works()
}

func coreDumps(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	if got := b.Run("import os; os.abort()"); got.Signal != int(unix.SIGABRT) {
		t.Errorf("abort: %+v, want signal %d", got, unix.SIGABRT)
	}
	got := b.Print("import os, resource; print(resource.getrlimit(resource.RLIMIT_CORE), os.listdir('/work'))")
	if got != "(1, 1) []\n" {
		t.Errorf("limit of core dumps and what is in /work = %q, want (1, 1) and nothing", got)
	}
}
