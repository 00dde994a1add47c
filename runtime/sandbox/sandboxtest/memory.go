package sandboxtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/sandbox"
)

// watched says whether somebody looks that the sandbox keeps to its memory
// limit, instead of the kernel. One of the two has to.
func watched(t *testing.T, b *Box) bool {
	t.Helper()
	u, err := b.Container.Usage(t.Context())
	if err != nil {
		t.Fatalf("usage: %v", err)
	}
	if !u.Limited {
		t.Fatal("memory is not limited")
	}
	return u.Watched
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
	looked := watched(t, b)
	if got := b.Print("x = bytearray(100_000_000); print(len(x))"); got != "100000000\n" {
		t.Errorf("half the memory: printed %q", got)
	}
	outOfMemory(t, b.Run("x = bytearray(600_000_000); print(len(x))"), spec, looked)
	b.Works()
	if got := b.Run("x = bytearray(6_000_000_000)"); looked && (!got.Plain() || got.Code != 1 || !strings.Contains(got.Err, "MemoryError")) {
		t.Errorf("30 times the memory: %+v, want a MemoryError", got)
	}
	b.Works()
	// What ended one call is not to be seen in the next one's end.
	if got := b.Run("import os; os.kill(os.getpid(), 9)"); got.OutOfMemory || got.Signal != 9 {
		t.Errorf("a call that kills itself: %+v, want signal 9", got)
	}
}

// outOfMemory checks that a call was ended at the memory limit of spec, and how.
func outOfMemory(t *testing.T, got Result, spec sandbox.Spec, looked bool) {
	t.Helper()
	limit := spec.Limits.MemoryBytes
	if !got.OutOfMemory || got.Signal != 0 || got.Lost != "" || got.MemoryLimit != limit {
		t.Errorf("more than the memory: %+v, want out of memory with the limit", got)
		return
	}
	least, most := limit*9/10, limit
	if looked {
		least, most = limit, 2*limit // what Python takes in two looks is much less
	}
	if got.MemoryPeak < least || got.MemoryPeak > most {
		t.Errorf("peak = %d, want %d to %d", got.MemoryPeak, least, most)
	}
}

// kinds are ways to take memory: Python that takes size bytes and then says
// held(). Where there are several processes the first is the largest: the kernel
// chooses that one.
var kinds = []struct{ name, code string }{
	{"of many processes", `
each, x = 25_000_000, bytearray(size // 3)
r, w = os.pipe()
for _ in range((size - len(x)) // each):
    if os.fork() == 0:
        del x
        y = bytearray(each)
        os.write(w, b".")
        time.sleep(60)
    os.read(r, 1)
held()
`},
	{"copied by children", `
each, x = bytearray(25_000_000), bytearray(size // 3)
r, w = os.pipe()
for _ in range((size - len(x) - len(each)) // len(each)):
    if os.fork() == 0:
        del x
        touch(each)
        os.write(w, b".")
        time.sleep(60)
    os.read(r, 1)
held()
`},
	{"shared without a name", `
m = mmap.mmap(-1, size)
touch(m)
held()
`},
	{"of memory files, written", `
fds = [os.memfd_create("m%d" % i) for i in range(2)]
for fd in fds:
    for _ in range(size // 2_000_000):
        os.write(fd, bytes(1_000_000))
held()
`},
	{"of memory files, set aside", `
fds = [os.memfd_create("m%d" % i) for i in range(2)]
for fd in fds:
    os.posix_fallocate(fd, 0, size // 2)
held()
`},
	{"of memory files, mapped alone", `
maps = []
for i in range(2):
    fd = os.memfd_create("m%d" % i)
    os.truncate(fd, size // 2)
    maps.append(mmap.mmap(fd, size // 2))
    os.close(fd)
    touch(maps[-1])
held()
`},
	{"of memory files, mapped by several", `
fd = os.memfd_create("m")
os.truncate(fd, size // 2)
m, private = mmap.mmap(fd, size // 2), bytearray(size // 2)
for _ in range(4):
    if os.fork() == 0:
        touch(m)
        time.sleep(60)
touch(m)
held()
`},
	{"of a descriptor of another process", `
x = bytearray(size // 3)
r, w = os.pipe()
if os.fork() == 0:
    del x
    fds = [os.memfd_create("m%d" % i) for i in range(2)]
    for fd in fds:
        os.posix_fallocate(fd, 0, size // 3)
    os.write(w, b".")
    time.sleep(60)
os.read(r, 1)
held()
`},
	{"in files", `
fill("/dev/shm/x", size // 2)
x = bytearray(size - size // 2)
held()
`},
	{"in files without a name", `
f = fill("/tmp/x", size // 2)
os.unlink("/tmp/x")
x = bytearray(size - size // 2)
held()
`},
	{"in files, mapped", `
f = fill("/dev/shm/x", size // 2)
m = mmap.mmap(f.fileno(), size // 2)
touch(m)
x = bytearray(size - size // 2)
held()
`},
	{"of System V", `
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, ctypes.c_size_t(size // 2), 0o1600)
assert segment >= 0, os.strerror(ctypes.get_errno())
address = libc.shmat(segment, None, 0)
ctypes.memset(address, 1, size // 2)
libc.shmdt(ctypes.c_void_p(address))
x = bytearray(size - size // 2)
held()
`},
	{"under a name that lies", `
with open("/proc/self/comm", "wb", buffering=0) as f:
    f.write(b"\nRssAnon:\t0\nX")
x = bytearray(size)
held()
`},
	{"of a process whose first thread has ended", `
def work():
    global x
    x = bytearray(size)
    held()
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(ctypes.c_long({"x86_64": 60, "aarch64": 93}[os.uname().machine]), 0)
`},
	{"of threads that replace one another", `
start, stop = threading._start_new_thread, time.monotonic() + 2
def work():
    if time.monotonic() < stop:
        start(work, ())
        return
    global x
    x = bytearray(size)
    held()
    os._exit(0)
start(work, ())
ctypes.CDLL(None).syscall(ctypes.c_long({"x86_64": 60, "aarch64": 93}[os.uname().machine]), 0)
`},
}

// toTake is the code of a kind that takes size bytes and holds them for seconds.
func toTake(code string, size int, seconds float64) string {
	return fmt.Sprintf(`
import ctypes, mmap, os, threading, time
size = %d
def held():
    time.sleep(%g)
    print("held", flush=True)
def touch(m):
    for i in range(0, len(m), 4096):
        m[i] = 1
def fill(name, n):
    f = open(name, "w+b", buffering=0)
    while n > 0:
        n -= f.write(bytes(min(n, 1_000_000)))
    return f
%s`, size, seconds, code)
}

// memoryOfEveryKind: whatever it is, as much as the limit less what Python needs
// can be had; what takes more is ended, and nothing else.
func memoryOfEveryKind(t *testing.T, r sandbox.Runner) {
	spec := small()
	spec.Limits.MemoryBytes = 300e6
	spec.Limits.TmpBytes, spec.Limits.ShmBytes = 200e6, 200e6
	neighbour := Start(t, r, spec)
	goesOn := neighbour.Background("begun", "x = bytearray(100_000_000); print('begun', flush=True); __import__('time').sleep(1000)")
	b := Start(t, r, spec)
	looked := watched(t, b)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			// Time enough for a look, and then for many.
			if got := b.Run(toTake(kind.code, 225e6, 0.3)); !got.Plain() || got.Code != 0 || got.Out != "held\n" {
				t.Errorf("three quarters of the memory: %+v, want it to be held", got)
			}
			b.Clean()
			got := b.Run(toTake(kind.code, 350e6, 30))
			outOfMemory(t, got, spec, looked)
			b.Clean()
			b.Works()
			if got := b.Run("import os; os.kill(os.getpid(), 9)"); got.OutOfMemory || got.Signal != 9 {
				t.Errorf("a later call that kills itself: %+v, want signal 9", got)
			}
		})
	}
	if got := goesOn(); !got.Stopped || got.Lost != "" || got.Out != "begun\n" {
		t.Errorf("a call in another sandbox: %+v, want it to have gone on until it was stopped", got)
	}
	neighbour.Works()
}

// borrowedMemory: a program is started with all of its parent's memory for a
// moment, which is no memory more.
func borrowedMemory(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, small())
	got := b.Run(`
import os, subprocess, threading, time
x = bytearray(120_000_000)
def start():
    for _ in range(50):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        subprocess.run(["true"], check=True)
threads = [threading.Thread(target=start) for _ in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("done")
`)
	if !got.Plain() || got.Code != 0 || got.Out != "done\n" {
		t.Errorf("300 programs started by a process of 120 MB, of 200 MB: %+v, want all of them to run", got)
	}
}

// memoryStorm: processes that make others while they take memory all end, by
// memory or by time: a kernel that ends one of them after the other may leave the
// first for long.
func memoryStorm(t *testing.T, r sandbox.Runner) {
	spec := small()
	spec.Limits.PIDs = 200
	b := Start(t, r, spec)
	looked := watched(t, b)
	got := b.RunFor(10*time.Second, `
import os
kept = []
while True:
    try:
        os.fork()
    except OSError:
        pass
    kept.append(bytearray(1_000_000))
`)
	if !got.OutOfMemory && !strings.Contains(got.Err, "MemoryError") && (looked || !got.TimedOut) {
		t.Errorf("a storm of processes that take memory: %+v, want out of memory", got)
	}
	if got.Lost != "" { // it took too long to end, and was ended from outside
		<-b.Gone()
		b = Start(t, r, spec)
	}
	b.Clean()
	b.Works()
	if got := b.Print(alone); got != "[]\n" {
		t.Errorf("processes left: %s", got)
	}
}
