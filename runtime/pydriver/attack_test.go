package pydriver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// attacks on the first process; numbers of system calls are those of amd64.
// Each prints a line for what it could do, so nothing is right; out says what
// else it prints.
var attacks = []struct{ name, code, out string }{
	{name: "signals", code: `
for s in range(1, signal.NSIG):
    for send in lambda: os.kill(1, s), lambda: libc.syscall(234, 1, 1, s):  # tgkill(2)
        try:
            send()
        except OSError:
            pass
fd = os.pidfd_open(1)
for s in signal.Signals:
    signal.pidfd_send_signal(fd, s)
`},
	{name: "signals without end", code: `
end = time.monotonic() + 1
while time.monotonic() < end:
    os.kill(1, signal.SIGCHLD)
    os.kill(1, signal.SIGINT)
`},
	{name: "kill all", code: "os.kill(-1, signal.SIGKILL)\n"},
	{name: "stop all", code: "os.kill(-1, signal.SIGSTOP)\n"},
	{name: "limits", code: `
for limit in range(16):
    tried("prlimit %d" % limit, lambda: resource.prlimit(1, limit, (3, 3)))
    tried("prlimit %d read" % limit, lambda: resource.prlimit(1, limit))
`},
	{name: "priority", code: `
tried("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
tried("setpriority of the user", lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))
tried("setpriority of the user, 0", lambda: os.setpriority(os.PRIO_USER, 0, 19))
tried("setpriority of the group", lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(1), 19))
tried("sched_setscheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
tried("sched_setparam", lambda: os.sched_setparam(1, os.sched_param(0)))
tried("sched_setaffinity", lambda: os.sched_setaffinity(1, {0}))
tried("ioprio_set", lambda: check(libc.syscall(251, 1, 1, 3 << 13)))
tried("setpgid", lambda: os.setpgid(1, 0))
`},
	{name: "trace", code: `
tried("ptrace attach", lambda: check(libc.ptrace(16, 1, 0, 0)))
tried("ptrace seize", lambda: check(libc.ptrace(0x4206, 1, 0, 0)))
buf = ctypes.create_string_buffer(16)
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
vec = iovec(ctypes.addressof(buf), 16)
tried("process_vm_readv", lambda: check(libc.process_vm_readv(1, ctypes.byref(vec), 1, ctypes.byref(vec), 1, 0)))
tried("pidfd_getfd", lambda: check(libc.syscall(438, os.pidfd_open(1), 3, 0)))
tried("kcmp", lambda: check(libc.syscall(312, 1, os.getpid(), 0, 0, 0)))
tried("move_pages", lambda: check(libc.syscall(279, 1, 0, 0, 0, 0, 0)))
head, size = ctypes.c_void_p(), ctypes.c_size_t()
tried("get_robust_list", lambda: check(libc.syscall(274, 1, ctypes.byref(head), ctypes.byref(size))))
`},
	{name: "files in proc", code: `
harmless = set("cgroup children cmdline comm coredump_filter cpu_resctrl_groups cpuset gid_map limits loginuid mountinfo mounts oom_adj oom_score oom_score_adj projid_map sched schedstat sessionid setgroups stat statm status timens_offsets uid_map wchan autogroup arch_status".split())
for folder, folders, files in os.walk("/proc/1"):
    if "/net" in folder or "/attr" in folder:
        continue
    for name in files:
        tried("write " + folder + "/" + name, lambda: os.write(os.open(folder + "/" + name, os.O_WRONLY), b"3"))
        if name not in harmless:
            tried("read " + folder + "/" + name, lambda: os.read(os.open(folder + "/" + name, os.O_RDONLY), 1))
for name in "cwd", "root", "exe":
    tried("follow " + name, lambda: os.readlink("/proc/1/" + name))
for name in "fd", "fdinfo", "map_files", "ns":
    tried("list " + name, lambda: [os.readlink("/proc/1/ns/" + n) for n in os.listdir("/proc/1/" + name)])
tried("open 3", lambda: os.open("/proc/1/fd/3", os.O_RDWR))
`},
	{name: "forged messages", code: `
tried("write to 3", lambda: os.write(3, b"done 0"))
for fd in range(3, 300):
    tried("write to %d" % fd, lambda: os.write(fd, b"done 0"))
print("done 0", flush=True)
_ = os.write(1, b"ready 9.9.9")
`, out: "done 0\nready 9.9.9"},
	{name: "its own process", code: `
os.nice(19)
os.umask(0)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
for limit in resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_CPU:
    resource.setrlimit(limit, (1, 1)) if limit != resource.RLIMIT_AS else None
open("/proc/self/comm", "w")
`},
	{name: "descriptors taken away", code: "os.closerange(0, 1 << 16)\n"},
	{name: "sandbox's files", code: `
for name in "/.cloche/parent.py", "/.cloche/step", "/.cloche/filter", "/usr/bin/python3", "/proc/self/exe":
    tried("write " + name, lambda: os.open(name, os.O_WRONLY))
    tried("replace " + name, lambda: os.rename("/tmp/home", name))
tried("place", lambda: os.rmdir("/work"))
tried("place", lambda: os.rename("/tmp", "/work/tmp"))
`},
}

// helpers of the attacks.
const helpers = `
import ctypes, os, resource, signal, time
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
def tried(what, f):
    try:
        f()
    except (OSError, ValueError):
        return
    print("could:", what)
`

// stateOfParent prints what of the first process must not change.
const stateOfParent = `
import os
keep = "State SigBlk SigIgn SigCgt CapEff Cpus_allowed Uid NoNewPrivs Seccomp".split()
print([line for line in open("/proc/1/status") if line.split(":")[0] in keep and not line.startswith(("State:\tR", "State:\tS"))])
print(open("/proc/1/limits").read(), open("/proc/1/stat").read().split(")")[1].split()[16:18], open("/proc/1/comm").read())
print(open("/proc/1/oom_score_adj").read(), os.sched_getscheduler(0), os.sched_getaffinity(0), os.nice(0), os.umask(18))
`

func TestAttacksOnTheParent(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		b := start(t)
		before := b.Print(stateOfParent)
		for _, tt := range attacks {
			t.Run(tt.name, func(t *testing.T) {
				got := b.RunFor(20*time.Second, helpers+tt.code)
				if got.Lost != "" || got.TimedOut || got.Out != tt.out {
					t.Errorf("%+v, want %q printed and the sandbox to live", got, tt.out)
				}
				b.Works()
				if diff := cmp.Diff(before, b.Print(stateOfParent)); diff != "" {
					t.Errorf("the parent before and after (-before +after):\n%s", diff)
				}
			})
		}
	})
}

// TestParentDies: whatever ended the first process, the call says so, and what
// was written is there.
func TestParentDies(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		r := newRunner(t)
		b := sandboxtest.Start(t, r, sandboxtest.Spec())
		stop := b.Background("begun", "print('begun', flush=True)\nwhile True: pass")
		kill(t, firstProcess(t))
		<-b.Gone()
		got := stop()
		if got.Lost == "" || got.Plain() || !strings.Contains(got.Out, "begun") {
			t.Errorf("%+v, want the sandbox to be lost", got)
		}
		if err := b.Refresh(t.Context()); err == nil {
			t.Error("Refresh of a sandbox that is lost = nil, want an error")
		}
		sandboxtest.Start(t, r, sandboxtest.Spec()).Works()
	})
}
