package seccomp

import "golang.org/x/sys/unix"

// A group is the calls of one purpose. They are allowed with any arguments.
type group struct {
	purpose string
	only    string // the one GOARCH that has them; all have if empty
	calls   string // names, with spaces between
}

// groups are the calls that a sandbox may make. They tell what is allowed; what
// was left out of Docker's list on purpose is named at the end of this file.
var groups = []group{
	{purpose: "memory", calls: `
		brk munmap mremap mprotect madvise mincore msync mseal membarrier
		mlock mlock2 munlock munlockall pkey_alloc pkey_free pkey_mprotect map_shadow_stack`},
	{purpose: "reading and writing", calls: `
		read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek
		sendfile splice tee copy_file_range readahead fadvise64 fallocate truncate ftruncate
		fsync fdatasync sync_file_range cachestat`},
	{purpose: "descriptors", calls: `
		openat openat2 close dup dup3 flock ioctl pipe2`},
	{purpose: "names and directories", calls: `
		getcwd chdir fchdir getdents64 mkdirat unlinkat renameat linkat symlinkat readlinkat umask`},
	{purpose: "attributes of files", calls: `
		fstat statx statfs fstatfs faccessat faccessat2 utimensat
		fchmod fchmodat fchmodat2 fchown fchownat
		getxattr lgetxattr fgetxattr getxattrat setxattr lsetxattr fsetxattr setxattrat
		listxattr llistxattr flistxattr listxattrat removexattr lremovexattr fremovexattr removexattrat`},
	{purpose: "waiting for events", calls: `
		epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 eventfd2 signalfd4
		inotify_init1 inotify_add_watch inotify_rm_watch`},
	{purpose: "sockets, once there is one", calls: `
		bind listen accept accept4 connect shutdown getsockname getpeername getsockopt
		sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg`},
	{purpose: "processes and threads", calls: `
		execve execveat exit exit_group wait4 waitid set_tid_address gettid getpid getppid
		getpgid setpgid getsid setsid pidfd_open process_mrelease rseq
		futex futex_wait futex_wake futex_requeue futex_waitv set_robust_list get_robust_list`},
	{purpose: "signals", calls: `
		rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigreturn
		rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack kill tkill tgkill pidfd_send_signal restart_syscall`},
	{purpose: "time", calls: `
		clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday times getitimer setitimer
		timer_create timer_settime timer_gettime timer_getoverrun timer_delete
		timerfd_create timerfd_settime timerfd_gettime`},
	{purpose: "scheduling and limits", calls: `
		sched_yield sched_getaffinity sched_getattr sched_getparam sched_getscheduler
		sched_get_priority_max sched_get_priority_min sched_rr_get_interval
		getcpu getpriority ioprio_get getrlimit getrusage`},
	{purpose: "identity; without capabilities it cannot change to another's", calls: `
		getuid geteuid getresuid getgid getegid getresgid getgroups capget capset
		setuid setreuid setresuid setfsuid setgid setregid setresgid setfsgid setgroups`},
	{purpose: "shared memory, semaphores and messages within the sandbox", calls: `
		shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl`},
	{purpose: "the system", calls: `uname sysinfo getrandom`},
	{purpose: "older forms, which arm64 never had", only: "amd64", calls: `
		open creat dup2 pipe access stat lstat newfstatat readlink getdents
		mkdir rmdir link unlink symlink rename chmod chown lchown utime utimes futimesat
		epoll_create epoll_wait eventfd signalfd inotify_init
		fork vfork getpgrp pause alarm time`},
	{purpose: "the processor", only: "amd64", calls: `arch_prctl`},
	{purpose: "newfstatat, as arm64's table calls it", only: "arm64", calls: `fstatat`},
}

// absent are calls that a sandbox's kernel seems not to have: libraries try
// these and fall back at ENOSYS, but take EPERM for an error. What the arguments
// of clone3 and io_uring point to cannot be looked at. The requests of io_setup
// are counted for the whole host (fs.aio-max-nr), and one call may take them all.
const absent = `clone3 io_uring_setup io_uring_enter io_uring_register
	io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy`

// A rule allows a call if one of its ways does, which are all the tests in it;
// but if one of those in pretend holds, the call does nothing and seems to
// succeed, and before all if one of those in refuse holds, it is refused.
type rule struct {
	call    string
	only    string // as of group
	refuse  []way
	pretend []way
	ways    []way
}

// A way is tests of arguments that must all hold.
type way []test

// A test holds if argument arg, masked, equals value. It compares all 64 bits:
// there is no "not equal", since the kernel drops the upper half of an int and
// a test for inequality would be passed by setting a bit there.
type test struct {
	arg         uint32
	mask, value uint64
}

func equal(arg uint32, value uint64) test  { return test{arg: arg, mask: ^uint64(0), value: value} }
func without(arg uint32, bits uint64) test { return test{arg: arg, mask: bits} }

// integer is equal for an argument of which the kernel sees the lower half. What
// is refused or pretended is tested so, since the rest is allowed.
func integer(arg uint32, value uint64) test {
	return test{arg: arg, mask: 1<<32 - 1, value: value}
}

// anyhow is the way of a call with any arguments.
var anyhow = []way{{}}

// namespaces are the flags by which clone makes namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

const (
	ioprioProcess = 1      // IOPRIO_WHO_PROCESS of ioprio_set(2)
	shmHugeTLB    = 0o4000 // SHM_HUGETLB of shmget(2)
)

// oneself is the way of calls whose first argument is a process or thread, of
// which 0 is the caller: what is set on PID 1 or its threads would stay for the
// calls to come.
var oneself = []way{{equal(0, 0)}}

// settable are ways in which argument arg is a limit of resources other than that
// of core dumps, each with the tests of also.
func settable(arg uint32, also ...test) []way {
	const kinds = 16 // RLIM_NLIMITS
	var ways []way
	for kind := range uint64(kinds) {
		if kind != unix.RLIMIT_CORE {
			ways = append(ways, append(way{equal(arg, kind)}, also...))
		}
	}
	return ways
}

// connections are ways to make sockets of TCP and UDP. The kernel knows more
// protocols, and loads the module of one that somebody asks for.
func connections() []way {
	const kinds = 0xf // beside these bits are flags
	stream, datagram := test{1, kinds, unix.SOCK_STREAM}, test{1, kinds, unix.SOCK_DGRAM}
	var ways []way
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		ways = append(ways,
			way{equal(0, family), stream, equal(2, 0)}, way{equal(0, family), stream, equal(2, unix.IPPROTO_TCP)},
			way{equal(0, family), datagram, equal(2, 0)}, way{equal(0, family), datagram, equal(2, unix.IPPROTO_UDP)})
	}
	return ways
}

// ofSocket are ways to set options of a socket itself (socket(7)).
func ofSocket(options ...uint64) []way {
	var ways []way
	for _, o := range options {
		ways = append(ways, way{integer(1, unix.SOL_SOCKET), integer(2, o)})
	}
	return ways
}

// ofProcess are ways to call prctl, with the options of it that concern the
// caller alone and take no memory worth counting. Not among them are
// PR_SET_SECCOMP, whose programs are memory of which the whole host has an amount
// (net.core.bpf_jit_limit): without it no other sandbox can load its filter;
// PR_FUTEX_HASH, which takes a gigabyte at once; PR_SCHED_CORE, which keeps others
// from the processor's other half; and PR_SET_MEMORY_MERGE.
func ofProcess() []way {
	var ways []way
	for _, option := range []uint64{
		unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG, unix.PR_SET_DUMPABLE, unix.PR_GET_DUMPABLE,
		unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_TIMERSLACK, unix.PR_GET_TIMERSLACK,
		unix.PR_SET_CHILD_SUBREAPER, unix.PR_GET_CHILD_SUBREAPER, unix.PR_GET_TID_ADDRESS,
		unix.PR_SET_KEEPCAPS, unix.PR_GET_KEEPCAPS, unix.PR_SET_SECUREBITS, unix.PR_GET_SECUREBITS,
		unix.PR_CAPBSET_READ, unix.PR_CAPBSET_DROP, unix.PR_CAP_AMBIENT,
		unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS, unix.PR_GET_SECCOMP,
		unix.PR_SET_SPECULATION_CTRL, unix.PR_GET_SPECULATION_CTRL,
		unix.PR_SET_SYSCALL_USER_DISPATCH, unix.PR_SET_MDWE, unix.PR_GET_MDWE, unix.PR_GET_THP_DISABLE,
		unix.PR_SET_TSC, unix.PR_GET_TSC, unix.PR_SET_TIMING, unix.PR_GET_TIMING,
		unix.PR_MCE_KILL, unix.PR_MCE_KILL_GET, unix.PR_TASK_PERF_EVENTS_DISABLE, unix.PR_TASK_PERF_EVENTS_ENABLE,
		unix.PR_GET_MEMORY_MERGE, unix.PR_SET_VMA, unix.PR_SET_PTRACER,
		// Of arm64: vectors, tags and keys of pointers, shadow stacks.
		unix.PR_SVE_SET_VL, unix.PR_SVE_GET_VL, unix.PR_SME_SET_VL, unix.PR_SME_GET_VL,
		unix.PR_SET_TAGGED_ADDR_CTRL, unix.PR_GET_TAGGED_ADDR_CTRL,
		unix.PR_PAC_RESET_KEYS, unix.PR_PAC_SET_ENABLED_KEYS, unix.PR_PAC_GET_ENABLED_KEYS,
		unix.PR_GET_SHADOW_STACK_STATUS, unix.PR_SET_SHADOW_STACK_STATUS, unix.PR_LOCK_SHADOW_STACK_STATUS,
	} {
		ways = append(ways, way{integer(0, option)})
	}
	return ways
}

// manyWaits is from how many on one call may not wait for descriptors: for each the
// kernel takes 72 bytes that it counts for nobody, and a thousand threads may wait
// at once. It is a power of two, and more than FD_SETSIZE of select(2).
const manyWaits = 2048

// waits are ways in which argument arg, an int, is less than manyWaits.
func waits(arg uint32) []way { return []way{{without(arg, 1<<32-manyWaits)}} }

// rules are the calls that are allowed with some arguments only.
var rules = []rule{
	// No new namespace, and no child that starts traced. Threads of a process have
	// their descriptors in common: /proc shows the first one's, and who counts what
	// descriptors hold sees no others.
	{call: "clone", ways: []way{
		{without(0, namespaces|unix.CLONE_PTRACE|unix.CLONE_THREAD)},
		{
			without(0, namespaces|unix.CLONE_PTRACE),
			{arg: 0, mask: unix.CLONE_THREAD | unix.CLONE_FILES, value: unix.CLONE_THREAD | unix.CLONE_FILES},
		},
	}},
	{call: "close_range", ways: []way{{without(2, unix.CLOSE_RANGE_UNSHARE)}}},

	// Linux, 32 bits, old version numbers, and asking; not ADDR_NO_RANDOMIZE.
	{call: "personality", ways: []way{
		{equal(0, 0)},
		{equal(0, 0x0008)},
		{equal(0, 0x20000)},
		{equal(0, 0x20008)},
		{equal(0, 0xffffffff)},
	}},

	// Netlink is for getifaddrs: protocol 0 is NETLINK_ROUTE.
	{call: "socket", ways: append(connections(),
		way{equal(0, unix.AF_UNIX)},
		way{equal(0, unix.AF_NETLINK), equal(2, unix.NETLINK_ROUTE)},
	)},
	// The kernel makes two sockets of any family before it finds that most have no pairs.
	{call: "socketpair", ways: []way{{equal(0, unix.AF_UNIX)}}},
	// No programs for the kernel: see ofProcess. How much a socket may hold is a wish
	// that the kernel need not fulfil; it is as much as one holds that says nothing.
	{
		call: "setsockopt",
		refuse: ofSocket(unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF,
			unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF),
		pretend: ofSocket(unix.SO_SNDBUF, unix.SO_RCVBUF),
		ways:    anyhow,
	},

	// Memory that the host has set aside is in no limit.
	{call: "mmap", ways: []way{{without(3, unix.MAP_HUGETLB)}}},
	{call: "memfd_create", ways: []way{{without(1, unix.MFD_HUGETLB)}}},
	{call: "shmget", ways: []way{{without(2, shmHugeTLB)}}},

	// Locks of an open file stay while it is mapped, with no descriptor to tell of them.
	{call: "fcntl", refuse: []way{{integer(1, unix.F_OFD_SETLK)}, {integer(1, unix.F_OFD_SETLKW)}}, ways: anyhow},

	// They write out what all of the host has to write, and others wait for that.
	// Nothing of a sandbox is on a disk.
	{call: "sync", pretend: anyhow},
	{call: "syncfs", pretend: anyhow},

	{call: "poll", only: "amd64", ways: waits(1)},
	{call: "ppoll", ways: waits(1)},
	{call: "select", only: "amd64", ways: waits(0)},
	{call: "pselect6", ways: waits(0)},

	// Core dumps are off by a limit of 1, which alone keeps the kernel from giving
	// them to a program of the host's (core(5), a pipe in core_pattern): 0 does not.
	// Programs that turn dumps off for themselves are not to fail.
	{
		call:    "prlimit64",
		ways:    append(settable(1, equal(0, 0)), way{equal(0, 0), equal(2, 0)}), // or asked for
		pretend: []way{{equal(0, 0), equal(1, unix.RLIMIT_CORE), equal(3, 0)}},
	},
	// Where no control group limits memory huge pages are off: one fault takes 2 MB,
	// and who counts faults is not to be told of 4 kB.
	{call: "prctl", pretend: []way{{integer(0, unix.PR_SET_THP_DISABLE)}}, ways: ofProcess()},
	{call: "setrlimit", ways: settable(0), pretend: []way{{equal(0, unix.RLIMIT_CORE)}}},
	{call: "sched_setscheduler", ways: oneself},
	{call: "sched_setparam", ways: oneself},
	{call: "sched_setattr", ways: oneself},
	{call: "sched_setaffinity", ways: oneself},
	{call: "setpriority", ways: []way{{equal(0, unix.PRIO_PROCESS), equal(1, 0)}}},
	{call: "ioprio_set", ways: []way{{equal(0, ioprioProcess), equal(1, 0)}}},

	// Pipes, sockets and plain files; the bit is set for both kinds of device. A
	// device 0/0, a whiteout of overlayfs, would need no capability.
	{call: "mknod", only: "amd64", ways: []way{{without(1, unix.S_IFCHR)}}},
	{call: "mknodat", ways: []way{{without(2, unix.S_IFCHR)}}},
	{call: "renameat2", ways: []way{{without(4, unix.RENAME_WHITEOUT)}}},
}

// Left out of what Docker allows without capabilities, and so refused:
//
//   - looking into processes: ptrace process_vm_readv process_vm_writev uretprobe
//   - the kernel's own filters: seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
//   - mounts and file handles: listmount statmount name_to_handle_at fanotify_mark
//   - memory: memfd_secret mlockall remap_file_pages vmsplice
//   - the clock: adjtimex clock_adjtime
//   - POSIX message queues, which need mq_open: mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
//   - the processor's tables: modify_ldt
//   - numbers that 64-bit kernels do not serve: get_thread_area set_thread_area epoll_ctl_old epoll_wait_old
