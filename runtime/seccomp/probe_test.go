package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A probe is a system call and what must come of it under the filter.
type probe struct {
	name   string // the call's, if empty
	call   string // in the architecture's table; skipped where it is not
	number uintptr
	args   []any // int, uint64, string, or []byte for the kernel to write to
	want   syscall.Errno
}

const (
	pid1 = 1
	cwd  = unix.AT_FDCWD

	noRandomize = 0x0040000 // ADDR_NO_RANDOMIZE of personality(2)

	// dropped is a bit that the kernel does not see in an int. The number in it
	// is renameat2's: a filter that loses the call's number takes it for that.
	dropped uint64 = 316 << 32
)

// refused probes are harmless if they should get through.
var refused = []probe{
	{call: "unshare", args: []any{unix.CLONE_NEWUSER}, want: unix.EPERM},
	{call: "unshare", name: "unshare of nothing", want: unix.EPERM},
	{call: "setns", args: []any{-1, 0}, want: unix.EPERM},
	{call: "clone", name: "clone NEWUSER", args: []any{unix.CLONE_NEWUSER | int(unix.SIGCHLD)}, want: unix.EPERM},
	{call: "clone", name: "clone NEWUSER, garbage above", args: []any{dropped | unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, want: unix.EPERM},
	{call: "clone", name: "clone NEWNS", args: []any{unix.CLONE_NEWNS | int(unix.SIGCHLD)}, want: unix.EPERM},
	{call: "clone", name: "clone NEWPID", args: []any{unix.CLONE_NEWPID | int(unix.SIGCHLD)}, want: unix.EPERM},
	{call: "clone", name: "clone NEWNET", args: []any{unix.CLONE_NEWNET | int(unix.SIGCHLD)}, want: unix.EPERM},
	{call: "clone", name: "clone PTRACE", args: []any{unix.CLONE_PTRACE | int(unix.SIGCHLD)}, want: unix.EPERM},
	// Without CLONE_SIGHAND the kernel makes no thread.
	{call: "clone", name: "clone of a thread with descriptors of its own", args: []any{unix.CLONE_THREAD}, want: unix.EPERM},
	{call: "clone", name: "clone of a thread with descriptors of its own, garbage above", args: []any{dropped | unix.CLONE_THREAD}, want: unix.EPERM},
	{call: "clone", name: "clone of a thread, NEWUSER", args: []any{unix.CLONE_THREAD | unix.CLONE_FILES | unix.CLONE_NEWUSER}, want: unix.EPERM},
	{call: "close_range", name: "close_range UNSHARE", args: []any{1 << 20, 1 << 20, unix.CLOSE_RANGE_UNSHARE}, want: unix.EPERM},
	{call: "clone3", args: []any{0, 0}, want: unix.ENOSYS},

	{call: "mount", want: unix.EPERM},
	{call: "umount2", args: []any{"nothing", 0}, want: unix.EPERM},
	{call: "pivot_root", args: []any{"nothing", "nothing"}, want: unix.EPERM},
	{call: "chroot", args: []any{"nothing"}, want: unix.EPERM},
	{call: "fsopen", want: unix.EPERM},
	{call: "open_tree", args: []any{-1, 0, 0}, want: unix.EPERM},
	{call: "move_mount", args: []any{-1, 0, -1, 0, 0}, want: unix.EPERM},
	{call: "mount_setattr", args: []any{-1}, want: unix.EPERM},
	{call: "statmount", want: unix.EPERM},
	{call: "listmount", want: unix.EPERM},
	{call: "fanotify_init", args: []any{-1}, want: unix.EPERM},
	{call: "open_by_handle_at", args: []any{-1, 0, 0}, want: unix.EPERM},
	{call: "name_to_handle_at", args: []any{cwd, ".", 0, 0, 0}, want: unix.EPERM},

	{call: "keyctl", args: []any{-1}, want: unix.EPERM},
	{call: "add_key", want: unix.EPERM},
	{call: "request_key", want: unix.EPERM},
	{call: "io_uring_setup", want: unix.ENOSYS},
	{call: "io_uring_enter", args: []any{-1}, want: unix.ENOSYS},
	{call: "io_uring_register", args: []any{-1}, want: unix.ENOSYS},
	{call: "io_setup", args: []any{1, make([]byte, 8)}, want: unix.ENOSYS},
	{call: "io_submit", args: []any{-1}, want: unix.ENOSYS},
	{call: "userfaultfd", want: unix.EPERM},
	{call: "bpf", args: []any{-1}, want: unix.EPERM},
	{call: "perf_event_open", want: unix.EPERM},
	{call: "seccomp", args: []any{-1}, want: unix.EPERM},
	{call: "landlock_create_ruleset", args: []any{0, 0, 1}, want: unix.EPERM},
	{call: "memfd_secret", want: unix.EPERM},
	{call: "vmsplice", args: []any{-1}, want: unix.EPERM},
	{call: "mlockall", args: []any{unix.MCL_CURRENT}, want: unix.EPERM},
	{call: "mq_open", args: []any{"nothing", 0}, want: unix.EPERM},

	{call: "ptrace", args: []any{-1}, want: unix.EPERM},
	{call: "process_vm_readv", want: unix.EPERM},
	{call: "process_vm_writev", want: unix.EPERM},
	{call: "process_madvise", args: []any{-1}, want: unix.EPERM},
	{call: "pidfd_getfd", args: []any{-1}, want: unix.EPERM},
	{call: "kcmp", want: unix.EPERM},

	{call: "init_module", want: unix.EPERM},
	{call: "finit_module", args: []any{-1}, want: unix.EPERM},
	{call: "delete_module", want: unix.EPERM},
	{call: "kexec_load", args: []any{0, 0, 0, -1}, want: unix.EPERM},
	{call: "reboot", want: unix.EPERM},
	{call: "syslog", args: []any{-1}, want: unix.EPERM},
	{call: "acct", args: []any{"nothing/at/all"}, want: unix.EPERM},
	{call: "swapon", args: []any{"nothing"}, want: unix.EPERM},
	{call: "quotactl", args: []any{-1}, want: unix.EPERM},
	{call: "clock_settime", want: unix.EPERM},
	{call: "adjtimex", want: unix.EPERM},
	{call: "sethostname", args: []any{0, -1}, want: unix.EPERM},
	{call: "modify_ldt", args: []any{-1}, want: unix.EPERM},
	{call: "iopl", want: unix.EPERM},
	{call: "ioperm", want: unix.EPERM},
	{call: "personality", name: "personality ADDR_NO_RANDOMIZE", args: []any{noRandomize}, want: unix.EPERM},
	{call: "personality", name: "personality ADDR_NO_RANDOMIZE, garbage above", args: []any{dropped | noRandomize}, want: unix.EPERM},

	{call: "socket", name: "socket PACKET", args: []any{unix.AF_PACKET, unix.SOCK_RAW, 0}, want: unix.EPERM},
	{call: "socket", name: "socket PACKET, garbage above", args: []any{dropped | unix.AF_PACKET, unix.SOCK_RAW, 0}, want: unix.EPERM},
	{call: "socket", name: "socket VSOCK", args: []any{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, want: unix.EPERM},
	{call: "socket", name: "socket VSOCK, garbage above", args: []any{dropped | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, want: unix.EPERM},
	{call: "socket", name: "socket VSOCK, bit 32", args: []any{uint64(1<<32 | unix.AF_VSOCK), unix.SOCK_STREAM, 0}, want: unix.EPERM},
	{call: "socket", name: "socket INET, bit 32", args: []any{uint64(1<<32 | unix.AF_INET), unix.SOCK_STREAM, 0}, want: unix.EPERM},
	{call: "socket", name: "socket ALG", args: []any{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, want: unix.EPERM},
	{call: "socket", name: "socket CAN", args: []any{unix.AF_CAN, unix.SOCK_RAW, 1}, want: unix.EPERM},
	{call: "socket", name: "socket TIPC", args: []any{unix.AF_TIPC, unix.SOCK_STREAM, 0}, want: unix.EPERM},
	{call: "socket", name: "socket RDS", args: []any{unix.AF_RDS, unix.SOCK_SEQPACKET, 0}, want: unix.EPERM},
	{call: "socket", name: "socket BLUETOOTH", args: []any{unix.AF_BLUETOOTH, unix.SOCK_RAW, 0}, want: unix.EPERM},
	{call: "socket", name: "socket KEY", args: []any{unix.AF_KEY, unix.SOCK_RAW, 2}, want: unix.EPERM},
	{call: "socket", name: "netlink of netfilter", args: []any{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, want: unix.EPERM},
	{call: "socket", name: "netlink of uevents", args: []any{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, want: unix.EPERM},
	{call: "socket", name: "netlink of xfrm, bit 32", args: []any{unix.AF_NETLINK, unix.SOCK_RAW, uint64(1<<32 | unix.NETLINK_XFRM)}, want: unix.EPERM},
	{call: "socket", name: "socket INET of SCTP", args: []any{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, want: unix.EPERM},
	{call: "socket", name: "socket INET of MPTCP", args: []any{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, want: unix.EPERM},
	{call: "socket", name: "socket INET6 of UDP-Lite", args: []any{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}, want: unix.EPERM},
	{call: "socket", name: "socket INET of another kind", args: []any{unix.AF_INET, unix.SOCK_SEQPACKET, 0}, want: unix.EPERM},
	{call: "socket", name: "socket INET of packets", args: []any{unix.AF_INET, unix.SOCK_PACKET, 0}, want: unix.EPERM},
	{call: "setsockopt", name: "setsockopt of a program", args: []any{-1, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, want: unix.EPERM},
	{call: "setsockopt", name: "setsockopt of a program, garbage above", args: []any{-1, dropped | unix.SOL_SOCKET, dropped | unix.SO_ATTACH_FILTER}, want: unix.EPERM},
	{call: "setsockopt", name: "setsockopt of a BPF program", args: []any{-1, unix.SOL_SOCKET, unix.SO_ATTACH_BPF}, want: unix.EPERM},
	{call: "setsockopt", name: "setsockopt of a program for many", args: []any{-1, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF}, want: unix.EPERM},
	{call: "setsockopt", name: "setsockopt of a BPF program for many", args: []any{-1, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_EBPF}, want: unix.EPERM},
	{call: "prctl", name: "prctl of a filter", args: []any{unix.PR_SET_SECCOMP, 0}, want: unix.EPERM},
	{call: "prctl", name: "prctl of a filter, garbage above", args: []any{dropped | unix.PR_SET_SECCOMP, 0}, want: unix.EPERM},
	{call: "prctl", name: "prctl of a table of futexes", args: []any{unix.PR_FUTEX_HASH, -1}, want: unix.EPERM},
	{call: "prctl", name: "prctl of one's own processor", args: []any{unix.PR_SCHED_CORE, -1}, want: unix.EPERM},
	{call: "prctl", name: "prctl newer than the list", args: []any{1 << 20}, want: unix.EPERM},
	{call: "mmap", name: "mmap of huge pages", args: []any{0, -1, 0, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB, -1, 0}, want: unix.EPERM},
	{call: "memfd_create", name: "memfd_create of huge pages", args: []any{"memory", unix.MFD_CLOEXEC | unix.MFD_HUGETLB}, want: unix.EPERM},
	{call: "shmget", name: "shmget of huge pages", args: []any{0, -1, shmHugeTLB | 0o600}, want: unix.EPERM},
	{call: "fcntl", name: "fcntl of an open file's lock", args: []any{-1, unix.F_OFD_SETLK, 0}, want: unix.EPERM},
	{call: "fcntl", name: "fcntl of an open file's lock, waiting", args: []any{-1, unix.F_OFD_SETLKW, 0}, want: unix.EPERM},
	{call: "poll", name: "poll of many", args: []any{0, manyWaits, 0}, want: unix.EPERM},
	{call: "ppoll", name: "ppoll of many", args: []any{0, -1, 0, 0}, want: unix.EPERM},
	{call: "select", name: "select of many", args: []any{manyWaits, 0, 0, 0, make([]byte, 16)}, want: unix.EPERM},
	{call: "pselect6", name: "pselect6 of many", args: []any{dropped | manyWaits, 0, 0, 0, make([]byte, 16), 0}, want: unix.EPERM},
	{call: "socketpair", name: "socketpair TIPC", args: []any{unix.AF_TIPC, unix.SOCK_STREAM, 0, make([]byte, 8)}, want: unix.EPERM},

	{call: "prlimit64", name: "prlimit64 of core dumps, garbage above", args: []any{0, dropped | unix.RLIMIT_CORE, 1, 0}, want: unix.EPERM},
	{call: "prlimit64", name: "prlimit64 of core dumps and their limit before", args: []any{0, unix.RLIMIT_CORE, 1, make([]byte, 16)}, want: unix.EPERM},
	{call: "setrlimit", name: "setrlimit of core dumps, garbage above", args: []any{dropped | unix.RLIMIT_CORE, 1}, want: unix.EPERM},
	{call: "prlimit64", name: "prlimit64 of PID 1", args: []any{pid1, unix.RLIMIT_NOFILE, 0, make([]byte, 16)}, want: unix.EPERM},
	{call: "prlimit64", name: "prlimit64 of PID 1, garbage above", args: []any{dropped | pid1, unix.RLIMIT_NOFILE, 0, make([]byte, 16)}, want: unix.EPERM},
	{call: "sched_setscheduler", name: "sched_setscheduler of PID 1", args: []any{pid1, -1, 0}, want: unix.EPERM},
	{call: "sched_setparam", name: "sched_setparam of PID 1", args: []any{pid1, 0}, want: unix.EPERM},
	{call: "sched_setattr", name: "sched_setattr of PID 1", args: []any{pid1, 0, 0}, want: unix.EPERM},
	{call: "sched_setaffinity", name: "sched_setaffinity of PID 1", args: []any{pid1, 0, 0}, want: unix.EPERM},
	{call: "setpriority", name: "setpriority of PID 1", args: []any{unix.PRIO_PROCESS, pid1, 0}, want: unix.EPERM},
	{call: "setpriority", name: "setpriority of the group", args: []any{unix.PRIO_PGRP, 0, 0}, want: unix.EPERM},
	{call: "setpriority", name: "setpriority of the user", args: []any{unix.PRIO_USER, 0, 0}, want: unix.EPERM},
	{call: "ioprio_set", name: "ioprio_set of PID 1", args: []any{ioprioProcess, pid1, 0}, want: unix.EPERM},

	{call: "mknod", name: "mknod of a device", args: []any{"device", unix.S_IFCHR | 0o600, 0x103}, want: unix.EPERM},
	{call: "mknodat", name: "mknodat of a device", args: []any{cwd, "device", unix.S_IFCHR | 0o600, 0x103}, want: unix.EPERM},
	{call: "mknodat", name: "mknodat of a block device", args: []any{cwd, "device", unix.S_IFBLK | 0o600, 0x103}, want: unix.EPERM},
	{call: "mknodat", name: "mknodat of a whiteout", args: []any{cwd, "device", unix.S_IFCHR, 0}, want: unix.EPERM},
	{call: "renameat2", name: "renameat2 with a whiteout", args: []any{cwd, "a", cwd, "b", unix.RENAME_WHITEOUT}, want: unix.EPERM},
	{call: "renameat2", name: "renameat2 with a whiteout, garbage above", args: []any{cwd, "a", cwd, "b", dropped | unix.RENAME_WHITEOUT}, want: unix.EPERM},

	{name: "number 470", number: 470, want: unix.ENOSYS},
	{name: "number 999", number: 999, want: unix.ENOSYS},
	{name: "number -1", number: ^uintptr(0), want: unix.ENOSYS},
	{name: "getpid of x32", number: 1<<30 | 39, want: unix.ENOSYS},
	{name: "ptrace of x32", number: 1<<30 | 521, want: unix.ENOSYS},
}

// marker stands in for EPERM and ENOSYS, to tell the filter's from the kernel's.
const marker = unix.ENOTNAM

func TestProbes(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode string
		mark bool
	}{{name: "as shipped", mode: "probe"}, {name: "marked", mode: "probe marked", mark: true}} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := helper(t, tt.mode).Output()
			if err != nil {
				t.Fatalf("probing process: %v", err)
			}
			var got map[string]syscall.Errno
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("probing process printed %q: %v", out, err)
			}
			for i, p := range probes() {
				if tt.mark && i < len(refused) {
					p.want = marker
				}
				if _, ok := tables[runtime.GOARCH].SyscallNames[p.call]; !ok {
					continue // the other architecture's
				}
				t.Run(p.name, func(t *testing.T) {
					if errno, ok := got[p.name]; !ok {
						t.Errorf("%s was not tried", p.call)
					} else if errno != p.want {
						t.Errorf("%s = %q, want %q", p.name, errno, p.want)
					}
				})
			}
		})
	}
}

// probes are all, first the refused ones, each with a name of its own.
func probes() []probe {
	var all []probe
	for _, p := range slices.Concat(refused, allowed) {
		if p.name == "" {
			p.name = p.call
		}
		all = append(all, p)
	}
	return all
}

func TestProbesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range probes() {
		if seen[p.name] {
			t.Errorf("two probes are called %q", p.name)
		}
		seen[p.name] = true
		if _, ok := tables["amd64"].SyscallNames[p.call]; p.call != "" && !ok {
			t.Errorf("probe %q: no system call %s", p.name, p.call)
		}
	}
}

// helperEnv says what this test binary does instead of its tests.
const helperEnv = "CLOCHE_SECCOMP_HELPER"

// helper is this test binary again, in an empty directory, to do what mode says.
func helper(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	c.Env = append(os.Environ(), helperEnv+"="+mode)
	c.Dir = t.TempDir()
	c.Stderr = t.Output()
	return c
}

func TestMain(m *testing.M) {
	mode := os.Getenv(helperEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(helperEnv)
	if err := help(mode); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func help(mode string) error {
	what, variant, _ := strings.Cut(mode, " ")
	if variant != "bare" {
		if err := load(variant == "marked"); err != nil {
			return err
		}
	}
	switch what {
	case "probe":
		return json.NewEncoder(os.Stdout).Encode(tryAll())
	case "exec":
		return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	case "foreign":
		return callForeign()
	}
	return errors.New("no such mode: " + mode)
}

// load puts the process, with all its threads, under the filter.
func load(marked bool) error {
	p, err := Program()
	if err != nil {
		return err
	}
	f := unsafe.Slice((*unix.SockFilter)(unsafe.Pointer(&p[0])), len(p)/8)
	for i := range f {
		if marked && f[i].Code == unix.BPF_RET && f[i].K&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO && f[i].K != done.Val {
			f[i].K = unix.SECCOMP_RET_ERRNO | uint32(marker)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	r, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 || r != 0 {
		return fmt.Errorf("load the filter: thread %d, %w", r, errno)
	}
	return nil
}

// tryAll returns what came of the probes, by their names.
func tryAll() map[string]syscall.Errno {
	got := map[string]syscall.Errno{}
	for _, p := range probes() {
		number := p.number
		if p.call != "" {
			n, ok := tables[runtime.GOARCH].SyscallNames[p.call]
			if !ok {
				continue
			}
			number = uintptr(n)
		}
		got[p.name] = p.try(number)
	}
	return got
}

func (p probe) try(number uintptr) syscall.Errno {
	var pin runtime.Pinner
	defer pin.Unpin()
	var args [6]uintptr
	for i, a := range p.args {
		switch a := a.(type) {
		case int:
			args[i] = uintptr(a)
		case uint64:
			args[i] = uintptr(a)
		case string:
			b := append([]byte(a), 0)
			pin.Pin(&b[0])
			args[i] = uintptr(unsafe.Pointer(&b[0]))
		case []byte:
			pin.Pin(&a[0])
			args[i] = uintptr(unsafe.Pointer(&a[0]))
		}
	}
	forks := p.call == "fork" || p.call == "clone"
	r, _, errno := unix.RawSyscall6(number, args[0], args[1], args[2], args[3], args[4], args[5])
	if forks && errno == 0 && r == 0 {
		for { // the child, in which nothing of Go's runtime lives
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return errno
}
