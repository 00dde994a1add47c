package sandboxtest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/sandbox"
)

// devices checks which there are, and that they are those that they are called.
func devices(t *testing.T, r sandbox.Runner) {
	var got map[string]string
	Start(t, r, Spec()).JSON(`
import errno, json, os, stat
found = {}
for name in sorted(os.listdir("/dev")):
    st = os.lstat("/dev/" + name)
    if stat.S_ISCHR(st.st_mode):
        found[name] = "%d:%d" % (os.major(st.st_rdev), os.minor(st.st_rdev))
    elif stat.S_ISLNK(st.st_mode):
        found[name] = "-> " + os.readlink("/dev/" + name)
    else:
        found[name] = stat.filemode(st.st_mode)[0]
for kind in stat.S_IFCHR, stat.S_IFBLK:
    try:
        os.mknod("/tmp/device", kind | 0o600, os.makedev(1, 3))
        found["made"] = "yes"
    except OSError as e:
        found["made"] = errno.errorcode[e.errno]
assert open("/dev/zero", "rb").read(3) == bytes(3) and len(open("/dev/urandom", "rb").read(9)) == 9
with open("/dev/null", "wb") as f:
    f.write(b"x")
print(json.dumps(found))
`, &got)
	want := map[string]string{
		"null": "1:3", "zero": "1:5", "full": "1:7", "random": "1:8", "urandom": "1:9", "tty": "5:0",
		"fd": "-> /proc/self/fd", "stdin": "-> /proc/self/fd/0", "stdout": "-> /proc/self/fd/1", "stderr": "-> /proc/self/fd/2",
		"shm": "d", "made": "EPERM",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// streams checks that what is written comes out as it is, each stream apart, and
// that nothing can be read.
func streams(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	got := b.Run(`
import os, sys
every = bytes(range(256)) * 4096
for piece in range(0, len(every), 65536):
    os.write(1, every[piece : piece + 65536])
    os.write(2, every[piece : piece + 65536][::-1])
sys.exit(3 if sys.stdin.read() == "" and os.read(0, 1) == b"" else 4)
`)
	every := bytes.Repeat([]byte(allBytes()), 4096)
	if !got.Plain() || got.Code != 3 {
		t.Errorf("code that writes 1 MB to each stream and reads nothing: %+v, want exit 3", got.Exit)
	}
	if got.Out != string(every) {
		t.Errorf("stdout has %d bytes, want all %d as they were written", len(got.Out), len(every))
	}
	if len(got.Err) != len(every) || !strings.HasPrefix(got.Err, "\xff\xfe\xfd") {
		t.Errorf("stderr has %d bytes that begin with %.8q, want all %d as they were written", len(got.Err), got.Err, len(every))
	}
	b.Works()
}

func allBytes() string {
	var all strings.Builder
	for c := range 256 {
		all.WriteByte(byte(c))
	}
	return all.String()
}

// killed checks that what will not end is ended when its context does, with all
// that it started, and that what it had written is there.
func killed(t *testing.T, r sandbox.Runner) {
	b := Start(t, r, Spec())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got := b.RunIn(ctx, `
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, signal.Signals)
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(1)
print("begun", flush=True)
while True:
    pass
`)
	if !got.TimedOut || got.Out != "begun\n" {
		t.Errorf("code that will not end: %+v, want it to be ended after it has begun", got)
	}
	if got := b.Print(alone); got != "[]\n" {
		t.Errorf("processes left: %s", got)
	}
	b.Works()
}
