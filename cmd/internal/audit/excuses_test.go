package audit_test

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// An excuse is why an attempt finds nothing, whatever wall is off. It holds where
// holds, given what the attempt said outside of any sandbox, says so; nil: always.
type excuse struct {
	reason string
	holds  func(said string) bool
}

// excuses are those of all attempts that have one, by id and name. One that holds
// although the attempt did find something is a mistake, too.
var excuses = map[string]excuse{
	"A1 /proc/1/root/etc/shadow": {"root here has fewer capabilities than the host's first process", says("EACCES")},
	"A5 kcmp of a child":         {"this kernel has none", says("ENOSYS")},
	"A5 kcmp of the parent":      {"this kernel has none", says("ENOSYS")},
	"A6 keyctl":                  {"this kernel has no keys", says("ENOSYS")},
	"A6 add_key":                 {"this kernel has no keys", says("ENOSYS")},
	"A6 request_key":             {"this kernel has no keys", says("ENOSYS")},
	"A7 io_uring_setup":          {"this kernel has none, or has it off", says("ENOSYS", "EPERM")},
	"A8 userfaultfd":             {"this kernel has none", says("ENOSYS")},
	"A8 /dev/userfaultfd":        {"the host has none", says("ENOENT")},
	"A9 perf_event_open":         {"this kernel has none", says("ENOSYS")},
	"A9 kexec_load":              {"this kernel cannot load another", says("ENOSYS")},
	"A9 kexec_file_load":         {"this kernel cannot load another", says("ENOSYS")},
	"A9 init_module":             {"this kernel has no modules", says("ENOSYS")},
	"A9 finit_module":            {"this kernel has no modules", says("ENOSYS")},
	"A9 delete_module":           {"this kernel has no modules", says("ENOSYS")},
	"A11 /proc/kcore":            {"this kernel does not show its memory", says("ENOENT")},
	"A12 modify_ldt":             {"this kernel has none", says("ENOSYS")},
	"A12 iopl":                   {"this kernel has none", says("ENOSYS")},
	"A12 vm86":                   {"no 64-bit kernel has it", nil},
	"A13 modprobe":               {"this kernel has no modules", says("ENOENT")},
	"A13 sysrq-trigger":          {"this kernel has none", says("ENOENT")},
	"A15 /sys/kernel/debug":      {"it is empty on the host", says("holds []")},
	"A15 /sys/kernel/tracing":    {"it is empty on the host", says("holds []")},
	"A15 /sys/firmware":          {"it is empty on the host", says("holds []")},
	"A16 /dev/mem":               {"the host has none", says("ENOENT")},
	"A16 /dev/kvm":               {"the host has none", says("ENOENT")},
	"A16 /dev/fuse":              {"the host has none", says("ENOENT")},
	"A16 /dev/net/tun":           {"the host has none", says("ENOENT")},
	"A16 loop control":           {"the host has none, or is kept from it", says("ENOENT", "EPERM")},
	"A16 disks":                  {"the host has none, or is kept from them", says("ENOENT", "EPERM")},
	"A21 int 0x80":               {"this kernel runs no 32-bit programs", says("wait status 11")},
	"A21 x32":                    {"this kernel runs no x32 programs", says("ENOSYS")},
	"A21 x32 of ptrace":          {"this kernel runs no x32 programs", says("ENOSYS")},
	"C2 page cache":              {"what is read from files is given up for what is needed", nil},
	"C2 TCP":                     {"no limit is promised", nil},
	"C2 UDP":                     {"no limit is promised", nil},
	"C2 netlink":                 {"no limit is promised", nil},
	"C2 MAP_HUGETLB":             {"the host has set no huge pages aside", noHugePages},
	"C2 SHM_HUGETLB":             {"the host has set no huge pages aside", noHugePages},
	"C2 mlock":                   {"the server itself may lock less", below(unix.RLIMIT_MEMLOCK, 4<<20)},
	"C2 MAP_LOCKED":              {"the server itself may lock less", below(unix.RLIMIT_MEMLOCK, 4<<20)},
	"C3 oom_score_adj":           {"root here may not do it either", says("EACCES")},
	"C4 descriptors":             {"the server itself may have fewer", below(unix.RLIMIT_NOFILE, 70_000)},
	"C4 epoll":                   {"the server itself may have fewer", below(unix.RLIMIT_NOFILE, 70_000)},
	"C4 more than allowed":       {"it takes a capability that no user namespace gives", nil},
	"C4 semaphores":              {"every IPC namespace begins with a limit", nil},
	"C4 shared memory":           {"every IPC namespace begins with a limit", nil},
	"C4 message queues":          {"every IPC namespace begins with a limit", nil},
	"C4 timers":                  {"the server itself may have fewer", below(unix.RLIMIT_SIGPENDING, 20_000)},
	"C4 queued signals":          {"the server itself may have fewer", below(unix.RLIMIT_SIGPENDING, 20_000)},
	"C5 stdout":                  {serverHolds, nil},
	"C5 stderr":                  {serverHolds, nil},
	"C5 a line":                  {serverHolds, nil},
	"C5 lines":                   {serverHolds, nil},
	"C5 NUL":                     {serverHolds, nil},
	"C5 invalid UTF-8":           {serverHolds, nil},
	"C5 ANSI":                    {serverHolds, nil},
	"E5 file names":              {serverHolds, nil},
	"E5 folder names":            {serverHolds, nil},
}

// serverHolds is the excuse of what no sandbox decides.
const serverHolds = "it is the server that has to hold; TestJudge shows that an answer which is wrong is found"

// says holds if the attempt outside of any sandbox said one of words.
func says(words ...string) func(string) bool {
	return func(said string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(said, w) })
	}
}

func noHugePages(string) bool {
	text, err := os.ReadFile("/proc/sys/vm/nr_hugepages")
	return err != nil || strings.TrimSpace(string(text)) == "0"
}

// below holds if a limit of this process, and so of the server, is too low for
// what an attempt asks for.
func below(kind int, n uint64) func(string) bool {
	return func(string) bool {
		var l unix.Rlimit
		return unix.Getrlimit(kind, &l) == nil && l.Max < n
	}
}
