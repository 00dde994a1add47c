package seccomp

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// allowed probes are what programs live on, and the kernel's own answers to
// calls that would do harm here.
var allowed = []probe{
	{call: "getpid"},
	{call: "gettid"},
	{call: "getuid"},
	{call: "uname", args: []any{make([]byte, 390)}},
	{call: "sysinfo", args: []any{make([]byte, 112)}},
	{call: "getrandom", args: []any{make([]byte, 16), 16, 0}},
	{call: "clock_gettime", args: []any{unix.CLOCK_MONOTONIC, make([]byte, 16)}},
	{call: "futex", args: []any{make([]byte, 8), 1, 1}}, // FUTEX_WAKE
	{call: "membarrier"},
	{call: "madvise"},
	{call: "mremap", args: []any{1}, want: unix.EINVAL},

	{call: "openat", args: []any{cwd, ".", unix.O_DIRECTORY}},
	{call: "openat2", args: []any{cwd, ".", binary.NativeEndian.AppendUint64(make([]byte, 0, 24), unix.O_PATH)[:24], 24}},
	{call: "statx", args: []any{cwd, ".", 0, unix.STATX_BASIC_STATS, make([]byte, 256)}},
	{call: "faccessat2", args: []any{cwd, ".", 0, 0}},
	{call: "close", args: []any{-1}, want: unix.EBADF},
	{call: "fchown", args: []any{-1, 0, 0}, want: unix.EBADF},
	{call: "fchmod", args: []any{-1, 0}, want: unix.EBADF},
	{call: "fgetxattr", args: []any{-1, "user.a", 0, 0}, want: unix.EBADF},
	{call: "copy_file_range", args: []any{-1, 0, -1, 0, 1, 0}, want: unix.EBADF},
	{call: "ioctl", args: []any{-1}, want: unix.EBADF},
	{call: "fsync", args: []any{-1}, want: unix.EBADF},
	{call: "execve", args: []any{"nothing", 0, 0}, want: unix.ENOENT},

	{call: "pipe2", args: []any{make([]byte, 8), 0}},
	{call: "mmap", args: []any{0, 4096, 0, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, -1, 0}},
	{call: "shmget", args: []any{0, -1, 0o600}, want: unix.EINVAL},
	{call: "fcntl", args: []any{-1, unix.F_SETLK, 0}, want: unix.EBADF},
	{call: "fcntl", name: "fcntl that asks for an open file's lock", args: []any{-1, unix.F_OFD_GETLK, 0}, want: unix.EBADF},
	{call: "sync", name: "sync, which does nothing"},
	{call: "syncfs", name: "syncfs, which does nothing", args: []any{-1}},
	{call: "memfd_create", args: []any{"memory", unix.MFD_CLOEXEC}},
	{call: "poll", args: []any{0, 0, 0}},
	{call: "poll", name: "poll of as many as may be, which are nowhere", args: []any{0, manyWaits - 1, 0}, want: unix.EFAULT},
	{call: "ppoll", args: []any{0, 0, make([]byte, 16), 0}},
	{call: "select", name: "select of as many as may be", args: []any{manyWaits - 1, 0, 0, 0, make([]byte, 16)}},
	{call: "pselect6", name: "pselect6, garbage above", args: []any{dropped | 1, 0, 0, 0, make([]byte, 16), 0}},
	{call: "epoll_create1"},
	{call: "eventfd2"},
	{call: "timerfd_create", args: []any{unix.CLOCK_MONOTONIC, 0}},
	{call: "inotify_init1"},
	{call: "pidfd_open", args: []any{pid1, -1}, want: unix.EINVAL},
	{call: "kill", args: []any{0, 0}},

	{call: "socket", name: "socket UNIX", args: []any{unix.AF_UNIX, unix.SOCK_STREAM, 0}},
	{call: "socket", name: "socket INET", args: []any{unix.AF_INET, unix.SOCK_STREAM, 0}},
	{call: "socket", name: "socket INET of datagrams", args: []any{unix.AF_INET, unix.SOCK_DGRAM, 0}},
	{call: "socket", name: "socket INET of TCP", args: []any{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}},
	{call: "socket", name: "socket INET of UDP", args: []any{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, unix.IPPROTO_UDP}},
	{call: "setsockopt", args: []any{-1, unix.SOL_SOCKET, unix.SO_REUSEADDR}, want: unix.EBADF},
	{call: "setsockopt", name: "setsockopt of another level", args: []any{-1, unix.IPPROTO_TCP, unix.SO_ATTACH_FILTER}, want: unix.EBADF},
	{call: "setsockopt", name: "setsockopt of what is on its way, which does nothing", args: []any{-1, unix.SOL_SOCKET, unix.SO_SNDBUF}},
	{call: "setsockopt", name: "setsockopt of what came, which does nothing", args: []any{-1, unix.SOL_SOCKET, unix.SO_RCVBUF}},
	{call: "socket", name: "netlink of routes", args: []any{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}},
	{call: "socketpair", args: []any{unix.AF_UNIX, unix.SOCK_STREAM, 0, make([]byte, 8)}},

	{call: "personality", name: "personality of Linux", args: []any{0}},
	{call: "personality", name: "personality asked for", args: []any{uint64(0xffffffff)}},
	{call: "prlimit64", name: "prlimit64 of oneself", args: []any{0, unix.RLIMIT_NOFILE, 0, make([]byte, 16)}},
	{call: "sched_getaffinity", args: []any{0, 128, make([]byte, 128)}},
	{call: "sched_getaffinity", name: "sched_getaffinity of PID 1", args: []any{pid1, 128, make([]byte, 128)}},
	{call: "sched_setaffinity", name: "sched_setaffinity of oneself", args: []any{0, 128, slices.Repeat([]byte{255}, 128)}},
	{call: "sched_setscheduler", name: "sched_setscheduler of oneself", args: []any{0, 0, make([]byte, 4)}},
	{call: "sched_setparam", name: "sched_setparam of oneself", args: []any{0, make([]byte, 4)}},
	{call: "sched_setattr", name: "sched_setattr of oneself", args: []any{0, 0, 0}, want: unix.EINVAL},
	{call: "setpriority", name: "setpriority of oneself", args: []any{unix.PRIO_PROCESS, 0, 19}},
	{call: "ioprio_set", name: "ioprio_set of oneself", args: []any{ioprioProcess, 0, 0}},
	{call: "setrlimit", args: []any{unix.RLIMIT_NOFILE, 0}, want: unix.EFAULT},
	{call: "setrlimit", name: "setrlimit of core dumps, which does nothing", args: []any{unix.RLIMIT_CORE, 0}},
	{call: "prlimit64", name: "prlimit64 of core dumps, which does nothing", args: []any{0, unix.RLIMIT_CORE, 1, 0}},
	{call: "prlimit64", name: "prlimit64 that asks for core dumps", args: []any{0, unix.RLIMIT_CORE, 0, make([]byte, 16)}},
	{call: "prctl", name: "prctl of a parent's death", args: []any{unix.PR_SET_PDEATHSIG, -1}, want: unix.EINVAL},
	{call: "prctl", name: "prctl of a name", args: []any{unix.PR_SET_NAME, "probe"}},
	{call: "prctl", name: "prctl of huge pages, which does nothing", args: []any{unix.PR_SET_THP_DISABLE, 0, 1, 1, 1}},

	{call: "mknod", name: "mknod of a FIFO", args: []any{"fifo", unix.S_IFIFO | 0o600, 0}},
	{call: "mknodat", name: "mknodat of a FIFO", args: []any{cwd, "fifo2", unix.S_IFIFO | 0o600, 0}},
	{call: "mknodat", name: "mknodat of a file", args: []any{cwd, "file", unix.S_IFREG | 0o600, 0}},
	{call: "renameat2", name: "renameat2 onto nothing", args: []any{cwd, "file", cwd, "file2", unix.RENAME_NOREPLACE}},

	{call: "fork"},
	{call: "clone", name: "clone of a thread that lacks what threads have in common", args: []any{unix.CLONE_THREAD | unix.CLONE_FILES}, want: unix.EINVAL},
	{call: "close_range", args: []any{1 << 20, 1 << 20, 0}},
	{call: "clone", name: "clone as fork does", args: []any{int(unix.SIGCHLD)}},
	{call: "clone", name: "clone as fork does, numbered below 2^32", args: []any{unix.CLONE_CHILD_CLEARTID | int(unix.SIGCHLD)}},
}
