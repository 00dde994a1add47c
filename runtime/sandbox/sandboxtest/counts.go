package sandboxtest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/sandbox"
)

// limitOfCounts prints, for things that the kernel counts, how many could be had
// and why there were no more.
const limitOfCounts = `
import ctypes, errno, json, mmap, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)

def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result

def until_refused(one, most):
    for n in range(most):
        try:
            one()
        except OSError as e:
            return [n, errno.errorcode[e.errno]]
    return [most, ""]

results = {}
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
had = []
n, why = until_refused(lambda: had.append(os.open("/dev/null", os.O_RDONLY)), hard + 1)
results["descriptors"] = [n + 3 == hard, why]  # and the three standard ones
for fd in had:
    os.close(fd)

size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
with open("/tmp/large", "wb") as f:
    os.ftruncate(f.fileno(), size)
    results["file size"] = until_refused(lambda: os.ftruncate(f.fileno(), size + 1), 1)
os.remove("/tmp/large")

page = mmap.PAGESIZE
locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] // page
area = mmap.mmap(-1, (locked + 1) * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
each = iter(range(locked + 1))
n, why = until_refused(lambda: checked(libc.mlock(ctypes.c_void_p(start + next(each) * page), ctypes.c_size_t(page))), locked + 1)
results["locked pages"] = [n == locked > 0, why]
libc.munlock(ctypes.c_void_p(start), ctypes.c_size_t(len(area)))

results["message queues"] = until_refused(lambda: checked(libc.syscall(240 if os.uname().machine == "x86_64" else 180, b"q", os.O_CREAT | os.O_RDWR, 0o600, None)), 1)
results["core"] = list(resource.getrlimit(resource.RLIMIT_CORE))
results["higher limit"] = until_refused(lambda: checked(libc.setrlimit(resource.RLIMIT_NOFILE, (ctypes.c_ulong * 2)(hard + 1, hard + 1))), 1)
results["better priority"] = until_refused(lambda: os.nice(-1), 1)
results["real time"] = until_refused(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), 1)
print(json.dumps(results))
`

// counts checks what each process may have: it gets that much and no more.
func counts(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	var got map[string][]any
	b.JSON(limitOfCounts, &got)
	want := map[string][]any{
		"descriptors":     {true, "EMFILE"},
		"file size":       {0.0, "EFBIG"},
		"locked pages":    {true, "ENOMEM"},
		"message queues":  {0.0, "EPERM"},
		"core":            {1.0, 1.0},
		"higher limit":    {0.0, "EPERM"},
		"better priority": {0.0, "EPERM"},
		"real time":       {0.0, "EPERM"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("how many, and why no more (-want +got):\n%s", diff)
	}
	b.Works()
}

// watchAll takes inotify instances until there are no more, and says how many.
const watchAll = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while libc.inotify_init1(0) >= 0:
    n += 1
print("took", n, errno.errorcode[ctypes.get_errno()], flush=True)
`

// ownCounts checks that what the kernel counts for each user, over all its
// processes, one sandbox cannot take from another nor from the host's root.
func ownCounts(t *testing.T, r sandbox.Runner) {
	const each = "took 16 EMFILE"
	most := 1
	if os.Getuid() == 0 {
		most = 9 // more than the 128 that a user has unless told otherwise
	}
	for n := range most {
		hog := Start(t, r, Spec())
		stop := hog.Background("took", watchAll+"import time\ntime.sleep(600)")
		defer func() {
			got := strings.TrimSpace(stop().Out)
			if n == 0 && got != each {
				t.Errorf("the first sandbox %s, want it to say %q", got, each)
			}
		}()
	}
	if os.Getuid() == 0 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			t.Fatalf("after sandboxes took all they could, the host's root gets no inotify instance: %v", err)
		}
		unix.Close(fd)
		return
	}
	if got := strings.TrimSpace(Start(t, r, Spec()).Print(watchAll)); got != each {
		t.Errorf("a sandbox beside one that took all it could %s, want %s", got, each)
	}
}

// sendAll leaves descriptors on their way through sockets until there may be no
// more.
const sendAll = `
import array, errno, os, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
many = array.array("i", [os.open("/dev/null", os.O_RDONLY)] * 253)
pairs, sent = [], 0
try:
    while sent < 3 * hard:
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        pairs[-1][0].setblocking(False)
        try:
            while True:
                pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, many)])
                sent += len(many)
        except BlockingIOError:
            pass
    print("no end after", sent, flush=True)
except OSError as e:
    print("sent", errno.errorcode[e.errno], flush=True)
`

// onTheirWay checks that the server can pass descriptors to sandboxes while one
// has as many on their way as it may.
func onTheirWay(t *testing.T, r sandbox.Runner) {
	other := Start(t, r, Spec())
	stop := Start(t, r, Spec()).Background("sent", sendAll+"import time\ntime.sleep(600)")
	other.Works()
	Start(t, r, Spec()).Works()
	if got := stop(); !got.Stopped || got.Out != "sent ETOOMANYREFS\n" {
		t.Errorf("who sends all it can: %+v, want ETOOMANYREFS, and that it goes on", got)
	}
}

// ownUser checks that the processes of two sandboxes are of two users, where the
// server has more than one user to give.
func ownUser(t *testing.T, r sandbox.Runner) {
	boxes := []*Box{Start(t, r, Spec()), Start(t, r, Spec())}
	users := make([]string, len(boxes))
	for i, b := range boxes {
		before := usersBelow(t)
		stop := b.Background("begun", "import subprocess\nsubprocess.Popen(['sleep', '600'])\nprint('begun', flush=True)\nimport time\ntime.sleep(600)")
		defer stop()
		users[i] = newIn(usersBelow(t), before)
	}
	if os.Getuid() == 0 && (users[0] == users[1] || users[0] == "" || users[1] == "") {
		t.Errorf("processes of two sandboxes are of the users %q and %q on the host, want two", users[0], users[1])
	}
}

// usersBelow counts the processes that this one started, by their user on this
// host.
func usersBelow(t *testing.T) map[string]int {
	t.Helper()
	count := map[string]int{}
	for _, pid := range Descendants(os.Getpid()) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it ended meanwhile
		}
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
				count[f[1]]++
			}
		}
	}
	return count
}

// newIn returns the key that has at least two more in now than in before.
func newIn(now, before map[string]int) string {
	for user, n := range now {
		if n >= before[user]+2 {
			return user
		}
	}
	return ""
}
