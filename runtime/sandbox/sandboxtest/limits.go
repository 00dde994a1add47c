package sandboxtest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox"
)

// limited says whether the kernel limits the sandbox's memory as a whole. As
// root it has to, where there are control groups.
func limited(t *testing.T, b *Box) bool {
	t.Helper()
	u, err := b.Container.Usage(t.Context())
	if err != nil {
		t.Fatalf("usage: %v", err)
	}
	if os.Getuid() == 0 {
		need.Cgroup(t)
		if !u.Limited {
			t.Fatal("memory is not limited although there are control groups")
		}
	}
	return u.Limited
}

// small is a spec with little memory.
func small() sandbox.Spec {
	s := Spec()
	s.Limits.MemoryBytes = 200e6
	s.Limits.WorkBytes, s.Limits.TmpBytes, s.Limits.ShmBytes = 16e6, 16e6, 16e6
	return s
}

func memory(t *testing.T, r sandbox.Runner) {
	spec := small()
	b := Start(t, r, spec)
	kernel := limited(t, b)
	if got := b.Print("x = bytearray(100_000_000); print(len(x))"); got != "100000000\n" {
		t.Errorf("half the memory: printed %q", got)
	}
	got := b.Run("x = bytearray(600_000_000); print(len(x))")
	switch {
	case kernel && (!got.OutOfMemory || got.Signal != 0 || got.MemoryLimit != spec.Limits.MemoryBytes):
		t.Errorf("three times the memory: %+v, want out of memory with the limit", got)
	case kernel && (got.MemoryPeak < spec.Limits.MemoryBytes*9/10 || got.MemoryPeak > spec.Limits.MemoryBytes):
		t.Errorf("peak = %d, want nearly %d", got.MemoryPeak, spec.Limits.MemoryBytes)
	case !kernel && (!got.Plain() || got.Code != 1 || !strings.Contains(got.Err, "MemoryError")):
		t.Errorf("three times the memory: %+v, want a MemoryError", got)
	}
	b.Works()
	// What ended one call is not to be seen in the next one's end.
	if got := b.Run("import os; os.kill(os.getpid(), 9)"); got.OutOfMemory || got.Signal != 9 {
		t.Errorf("a call that kills itself: %+v, want signal 9", got)
	}
}

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

// memoryInFiles: files in memory count, and the parent outlives it.
func memoryInFiles(t *testing.T, r sandbox.Runner) {
	spec := small()
	spec.Limits.MemoryBytes = 100e6
	spec.Limits.ShmBytes = 90e6
	b := Start(t, r, spec)
	if !limited(t, b) {
		t.Skip("files in memory are bounded by their own limits alone")
	}
	got := b.Run(`
with open("/dev/shm/x", "wb") as f:
    for i in range(80):
        f.write(bytes(1_000_000))
x = bytearray(60_000_000)
`)
	if !got.OutOfMemory {
		t.Errorf("80 MB of files and 60 MB of memory, of 100 MB: %+v, want out of memory", got)
	}
	b.Clean()
	b.Works()
}

// memoryOfMany: no process alone is past the limit.
func memoryOfMany(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, small())
	if !limited(t, b) {
		t.Skip("memory is limited by process")
	}
	got := b.Run(`
import os, time
pids = []
for i in range(8):
    pid = os.fork()
    if pid == 0:
        x = bytearray(50_000_000)
        time.sleep(2)
        os._exit(0)
    pids.append(pid)
print(sum(os.waitpid(pid, 0)[1] == 9 for pid in pids) > 0)
`)
	if got.Out != "True\n" && !got.OutOfMemory {
		t.Errorf("eight processes of 50 MB, of 200 MB: %+v, want some to be ended", got)
	}
	b.Clean()
	b.Works()
	if got := b.Run("import os; os.kill(os.getpid(), 9)"); got.OutOfMemory {
		t.Errorf("a later call that kills itself: %+v, want signal 9 and not the memory of the earlier one", got)
	}
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
	if got != "(0, 0) []\n" {
		t.Errorf("limit of core dumps and what is in /work = %q, want (0, 0) and nothing", got)
	}
}
