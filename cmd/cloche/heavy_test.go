package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// small is a policy of a sandbox that is soon full.
const small = "memory = \"200 MB\"\nwork = \"50 MB\"\ntmp = \"50 MB\"\nshm = \"20 MB\"\npids = 100\n"

// floods are code that writes more than anybody reads.
var floods = []badCode{
	{name: "1 GB of output", code: writes(1, `(b'x' * 99 + b'\n') * 10_000`, 1000), line: "· exit 0 · output 1 GB, shown 12 kB", stdout: []string{"xxxx"}},
	{long: true, name: "1 GB on standard error", code: writes(2, `b'x' * 65_536`, 15_259), line: "· exit 0 · stderr 1 GB, shown 12 kB", stderr: []string{"xxxx"}},
	{name: "line of 500 MB", code: writes(1, `b'x' * 1_000_000`, 500), line: "· exit 0 · output 500 MB, shown 12 kB", stdout: []string{"xxxx"}},
	{name: "ten million short lines", code: writes(1, `b'x\n' * 10_000`, 1000), line: "· exit 0 · output 20 MB, shown 12 kB", stdout: []string{"x\nx\n"}},
	{name: "200,000 prints", code: "for i in range(200_000):\n    print(i)", line: "· exit 0 · output 1.3 MB, shown 12 kB", stdout: []string{"0\n1\n2\n", "199998\n199999\n"}},
	{long: true, name: "three million prints", code: "for i in range(3_000_000):\n    print(i)", line: "· exit 0 · output 23 MB, shown", stdout: []string{"0\n1\n2\n", "2999998\n2999999\n"}},
	{
		name: "50 MB, by turns on both", code: "import os\nfor _ in range(25_000):\n    os.write(1, b'o' * 999 + b'\\n')\n    os.write(2, b'e' * 999 + b'\\n')",
		line: "· stderr 25 MB, shown ", stdout: []string{"oooo"}, stderr: []string{"eeee"},
	},
	{name: "20 MB that are no text", code: writes(1, `b'\xff\xfe\x80\xc3' * 250_000`, 20), line: "· exit 0 · output 20 MB", stdout: []string{"\ufffd"}},
	{name: "20 MB of NUL", code: writes(1, `bytes(1_000_000)`, 20), line: "· exit 0 · output 20 MB", stdout: []string{`\x00`}},
	{name: "20 MB that move the cursor", code: writes(1, `b'\x1b[A\x1b[Bx\x1b[31m\x1b[2K' * 62_500`, 20), line: "· exit 0"},
	{name: "sequence without end", code: writes(1, `b'\x1b]0;' + b't' * 1_000_000`, 50), line: "· exit 0 · output 50 MB", stdout: []string{"tttt"}},
	{name: "writes of one byte without end", limit: 1, code: "import os\nwhile True:\n    os.write(1, b'x')", line: "· ran past its 1 s limit", stdout: []string{"xxxx"}, stderr: []string{""}},
	{name: "writes by 50 processes without end", limit: 1, code: "import os\nfor _ in range(50):\n    if os.fork() == 0:\n        break\nwhile True:\n    os.write(1, b'x' * 65536)", line: "· ran past its 1 s limit", stdout: []string{"xxxx"}, stderr: []string{""}},
}

// writes is code that writes a value of Python to a descriptor, many times.
func writes(fd int, value string, times int) string {
	return fmt.Sprintf("import os\nb = %s\nfor _ in range(%d):\n    rest = b\n    while rest:\n        rest = rest[os.write(%d, rest):]", value, times, fd)
}

// hogs are code that takes processors and will not let them go.
var hogs = []badCode{
	{limit: 0.5, name: "64 threads that loop", code: loops + "threading.Event().wait()", line: "· ran past its 0.5 s limit", stderr: []string{""}},
	{limit: 0.5, name: "50 processes that loop", code: "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfor _ in range(50):\n    if os.fork() == 0:\n        break\nwhile True:\n    pass", line: "· ran past its 0.5 s limit"},
	{limit: 0.5, name: "loop in C", code: "sum(range(10**15))", line: "· ran past its 0.5 s limit"},
	{limit: 0.5, name: "regular expression", code: "import re\nre.match('(a*)*b', 'a' * 64)", line: "· ran past its 0.5 s limit", stderr: []string{"KeyboardInterrupt"}},
	{limit: 0.5, name: "number without end", code: "10 ** 10 ** 9", line: "· ran past its 0.5 s limit", stderr: []string{"KeyboardInterrupt"}},
	{limit: 0.5, name: "loop of numpy", modules: []string{"numpy"}, code: "import numpy\nnumpy.correlate(numpy.ones(10**6), numpy.ones(10**6), 'full')", line: "· ran past its 0.5 s limit"},
	{limit: 0.5, name: "processor at its highest priority", code: "import os\nfor ask in (lambda: os.nice(-20), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))):\n    try:\n        ask()\n        print('granted')\n    except OSError:\n        pass\nwhile True:\n    pass", line: "· ran past its 0.5 s limit", stderr: []string{"KeyboardInterrupt"}},
	{limit: 0.5, name: "respawning daemon", code: "import os\nif os.fork() == 0:\n    while True:\n        if os.fork():\n            os._exit(0)\n        os.setsid()\nwhile True:\n    pass", line: "· ran past its 0.5 s limit", stderr: []string{"KeyboardInterrupt"}},
	{limit: 0.5, name: "50 children that ignore everything", code: "import os, signal, time\nfor s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n    signal.signal(s, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.Signals)\nfor _ in range(50):\n    if os.fork() == 0:\n        os.setsid()\n        break\nwhile True:\n    time.sleep(600)", line: "· ran past its 0.5 s limit"},
}

// loops is code that starts threads which do nothing but compute.
const loops = "import threading\nfor _ in range(64):\n    threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\n"

// A bomb is code that takes all there is of what a small sandbox has, and what
// the answer says of it: one of these.
type bomb struct {
	long       bool    // it is for the long tests
	limit      float64 // of seconds, if it shall run past that
	name, code string
	says       []string
}

// What is said of a bomb, by where it was stopped.
var (
	noMemory = []string{"out of memory (limit 200 MB", "MemoryError", "Cannot allocate memory"}
	noRoom   = []string{"No space left on device"}
	tooLarge = []string{"No space left on device", "File too large", "out of memory (limit 200 MB"}
	noMore   = []string{"· ran past its 1 s limit"}
)

var bombs = []bomb{
	{name: "memory", code: "data = []\nwhile True:\n    data.append(bytearray(10_000_000))", says: noMemory},
	{name: "much memory beside 64 threads", code: loops + "bytearray(3 << 30)", says: noMemory},
	{name: "line of 500 MB in one piece", code: "print('x' * 500_000_000)", says: noMemory},
	{long: true, name: "recursion without end", code: "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f():\n    f()\nf()", says: append([]string{"· exit 1", "· ended by signal 11"}, noMemory...)},
	{name: "private mapping", code: taker + "take(mmap.mmap(-1, 400_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))", says: noMemory},
	{name: "shared mapping", code: taker + "take(mmap.mmap(-1, 400_000_000))", says: noMemory},
	{name: "shared mappings of several processes", code: taker + "several(lambda: mmap.mmap(-1, 50_000_000))", says: noMemory},
	{name: "memory of several processes", code: taker + "several(lambda: bytearray(50_000_000))", says: noMemory},
	{name: "memory files", code: taker + "for _ in range(10):\n    fd = os.memfd_create('bomb')\n    os.truncate(fd, 40_000_000)\n    take(mmap.mmap(fd, 40_000_000), False)\nend()", says: noMemory},
	{name: "memory file past any size", code: "import os\nfd = os.memfd_create('bomb')\nwhile True:\n    os.write(fd, bytes(1_000_000))", says: tooLarge},
	{name: "shared memory past any size", code: "from multiprocessing.shared_memory import SharedMemory\nm = SharedMemory(create=True, size=400_000_000)\nm.buf[:] = bytes(400_000_000)", says: tooLarge},
	{name: "files of shared memory", code: fills("/dev/shm"), says: noRoom},
	{name: "files of the working folder", code: fills("/work"), says: noRoom},
	{name: "files of the scratch folder", code: fills("/tmp"), says: noRoom},
	{name: "file past any size", code: "with open('/tmp/full', 'wb') as f:\n    while True:\n        f.write(bytes(1_000_000))", says: tooLarge},
	{long: true, name: "empty files", code: "i = 0\nwhile True:\n    i += 1\n    open(f'/tmp/{i}', 'w').close()", says: tooLarge},
	{limit: 1, name: "forks", code: "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", says: noMore},
	{limit: 1, name: "zombies", code: "import os\nwhile True:\n    try:\n        if os.fork() == 0:\n            os._exit(0)\n    except OSError:\n        pass", says: noMore},
	{name: "threads", code: "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", says: []string{"RuntimeError: can't start new thread"}},
	{name: "descriptors", code: "import os\nheld = []\nwhile True:\n    held.append(os.dup(0))", says: []string{"Too many open files"}},
	{name: "descriptors on their way", code: sends, says: []string{"Too many references"}},
	{name: "full pipes", code: "import os\nwhile True:\n    r, w = os.pipe()\n    os.set_blocking(w, False)\n    os.write(w, bytes(65_536))", says: []string{"Too many open files"}},
}

// taker is the start of code that takes memory. What it writes at the end is
// never to be said, or where several processes have a part, by few of them.
const taker = `import mmap, os, sys, time
def end():
    os.write(1, b'took all\n')
    time.sleep(3)
    os._exit(0)
def take(m, last=True):
    for i in range(0, len(m), 4096):
        m[i] = 1
    if last:
        end()
def several(make):
    for _ in range(8):
        if os.fork() == 0:
            take(make())
    sys.exit(os.wait()[1])
`

// sends is code that passes itself descriptors which it never takes, as many as
// may be on their way.
const sends = `
import resource, socket, sys, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []
try:
    while True:
        held.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        held[-1][0].setblocking(False)
        try:
            while True:
                socket.send_fds(held[-1][0], [b'x'], [0] * 250)
        except BlockingIOError:
            pass
except OSError as e:
    print(e, flush=True)
time.sleep(1)
`

// fills is code that writes files into a folder until there is no room.
func fills(folder string) string {
	return "i = 0\nwhile True:\n    i += 1\n    with open(f'" + folder + "/{i}', 'wb') as f:\n        f.write(bytes(1_000_000))"
}

// TestHeavy runs code that takes what it can get of time. Besides what is true of
// any bad code, another conversation is answered promptly meanwhile, and neither
// the server nor its shim takes more memory than it may.
func TestHeavy(t *testing.T) {
	for name, codes := range map[string][]badCode{"floods": floods, "hogs": hogs} {
		t.Run(name, func(t *testing.T) {
			need.BothUsers(t, func(t *testing.T) {
				need.Python(t)
				need.Namespaces(t)
				s := serve(t, lean, "")
				w := s.watch()
				for _, test := range codes {
					t.Run(test.name, func(t *testing.T) {
						if test.long {
							need.Long(t)
						}
						if len(test.modules) > 0 {
							need.Modules(t, test.modules...)
						}
						w.during(t, func() { s.on(t).bad(test) })
					})
				}
			})
		})
	}
}

// TestBombs runs code that takes what it can get of anything else. It is held,
// and all goes on as in TestHeavy.
func TestBombs(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean+small, "")
		w := s.watch()
		for _, test := range bombs {
			t.Run(test.name, func(t *testing.T) {
				if test.long {
					need.Long(t)
				}
				s := s.on(t)
				args := map[string]any{"code": named("bomb") + test.code}
				if test.limit > 0 {
					args["timeout_seconds"] = test.limit
				}
				w.during(t, func() {
					a := s.take(args, test.long)
					if !slices.ContainsFunc(test.says, func(said string) bool { return strings.Contains(a.text, said) }) {
						t.Errorf("answered:\n%.1000s\nwant one of %q", a.text, test.says)
					}
					if n := strings.Count(a.Stdout, "took all"); n > 3 || n > 0 && !strings.Contains(test.name, "several") {
						t.Errorf("what was more than the limit was given to it:\n%.1000s", a.text)
					}
					s.works()
				})
			})
		}
	})
}
