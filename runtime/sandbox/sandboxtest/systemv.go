package sandboxtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/sandbox"
)

// systemV: what System V objects hold, without a process, has limits. A kernel
// before Linux 5.19 lets nobody in a sandbox set them.
func systemV(t *testing.T, r sandbox.Runner) {
	const memory = 64 << 20
	spec := Spec()
	spec.Limits.MemoryBytes = memory
	b := Start(t, r, spec)
	if b.Print("import os; print(tuple(map(int, os.uname().release.split('.')[:2])) >= (5, 19))") != "True\n" {
		t.Skip("this kernel has one set of limits for all")
	}
	var got map[string]string
	b.JSON(`
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
memory, page = 64 << 20, 4096
def tried(call, *args):
    if call(*args) >= 0:
        return "ok"
    return errno.errorcode[ctypes.get_errno()]
def segment(size):
    return tried(libc.shmget, 0, ctypes.c_size_t(size), 0o1600)
def until_refused(call, *args):
    n = 0
    while (how := tried(call, *args)) == "ok":
        n += 1
    return "%s after %d" % (how, n)
print(json.dumps({
    "a segment of more than the memory": segment(memory + page),
    "one of all of it": segment(memory),
    "and one page": segment(page),
    "queues": until_refused(libc.msgget, 0, 0o1600),
    "sets of semaphores": until_refused(libc.semget, 0, 250, 0o1600),
    "a set of more": tried(libc.semget, 0, 251, 0o1600),
}))
`, &got)
	want := map[string]string{
		"a segment of more than the memory": "EINVAL",
		"one of all of it":                  "ok",
		"and one page":                      "ENOSPC",
		"queues":                            "ENOSPC after 256",
		"sets of semaphores":                "ENOSPC after 128",
		"a set of more":                     "EINVAL",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what can be had of System V (-want +got):\n%s", diff)
	}
	b.Clean()
	b.Works()
}
