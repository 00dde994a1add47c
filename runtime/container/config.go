package container

import (
	"math"
	"strconv"

	"github.com/opencontainers/cgroups"
	_ "github.com/opencontainers/cgroups/devices" // lets cgroups manage devices
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
)

// agent is the user that code runs as, inside.
const agent = 1000

// Descriptors of a process in a sandbox.
const (
	softFiles = 1024
	hardFiles = 65536
)

// masked are what of /proc tells of the host or changes it; Docker hides the
// same, and here what names the host's boot and devices is added.
var masked = []string{
	"/proc/acpi", "/proc/asound", "/proc/bootconfig", "/proc/buddyinfo", "/proc/bus", "/proc/cgroups", "/proc/cmdline", "/proc/config.gz", "/proc/consoles",
	"/proc/devices", "/proc/diskstats", "/proc/dma", "/proc/driver", "/proc/execdomains", "/proc/fb", "/proc/fs", "/proc/interrupts", "/proc/iomem",
	"/proc/ioports", "/proc/irq", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/kpagecgroup",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/locks", "/proc/mdstat", "/proc/misc",
	"/proc/modules", "/proc/mtrr", "/proc/partitions", "/proc/sched_debug", "/proc/schedstat", "/proc/scsi",
	"/proc/slabinfo", "/proc/softirqs", "/proc/sys/kernel/random/boot_id", "/proc/timer_list", "/proc/timer_stats", "/proc/tty",
	"/proc/vmallocinfo", "/proc/zoneinfo", "/proc/pressure",
}

var readOnly = []string{"/proc/sys", "/proc/sysrq-trigger"}

// config is what libcontainer is told of a sandbox.
func (r *Runner) config(id, root, group string, own slice, spec sandbox.Spec) *configs.Config {
	c := &configs.Config{
		Rootfs:     root,
		Readonlyfs: true,
		Hostname:   "sandbox",
		Domainname: "(none)", // as of a host that has none (setdomainname(2))
		Namespaces: configs.Namespaces{
			{Type: configs.NEWUSER},
			{Type: configs.NEWPID},
			{Type: configs.NEWNS},
			{Type: configs.NEWNET},
			{Type: configs.NEWIPC},
			{Type: configs.NEWUTS},
			{Type: configs.NEWCGROUP},
		},
		Mounts: []*configs.Mount{
			{Source: "proc", Destination: "/proc", Device: "proc", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
			// The root filesystem's own /dev, so that libcontainer makes none. All
			// sandboxes share it: with a single id its owner is the user that code
			// runs as.
			{Source: root + "/dev", Destination: "/dev", Device: "bind", Flags: unix.MS_BIND | unix.MS_REC | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV},
		},
		MaskPaths:       masked,
		ReadonlyPaths:   readOnly,
		NoNewPrivileges: true,
		NoNewKeyring:    true, // keyctl is filtered
		Networks:        []*configs.Network{{Type: "loopback"}},
		Capabilities:    own.capabilities(),
		Cgroups:         r.cgroups(id, group, spec.Limits),
		RootlessCgroups: group == "",
		OomScoreAdj:     new(0),
		Sysctl:          r.sysctls(own, spec.Limits),
	}
	if !r.processorsLimited() {
		c.Scheduler = r.behind
	}
	c.UIDMappings, c.GIDMappings = own.inside(), own.inside()
	loosenConfig(c)
	return c
}

// enforceable returns limits that are limits: to the kernel and to libcontainer
// zero is none, and so is what is below it. Python starts with the smallest.
func enforceable(l sandbox.Limits) sandbox.Limits {
	const (
		memory = 32 << 20
		place  = 64 << 10
		pids   = 8
	)
	return sandbox.Limits{
		MemoryBytes: max(l.MemoryBytes, memory),
		CPUs:        min(max(l.CPUs, 0.01), 1024),
		PIDs:        max(l.PIDs, pids),
		WorkBytes:   max(l.WorkBytes, place),
		TmpBytes:    max(l.TmpBytes, place),
		ShmBytes:    max(l.ShmBytes, place),
	}
}

// cgroups turns limits into those of a control group. Without a group there is
// nothing to set; libcontainer then tries one of its own, named id, and does
// without when it may not.
func (r *Runner) cgroups(id, path string, l sandbox.Limits) *cgroups.Cgroup {
	if path == "" {
		return &cgroups.Cgroup{Name: id, Rootless: true, Resources: &cgroups.Resources{}}
	}
	cg := &cgroups.Cgroup{Path: path, Resources: &cgroups.Resources{}}
	const period = 100_000 // microseconds, the kernel's own default
	res := cg.Resources
	if r.limits.Memory {
		res.Memory = l.MemoryBytes
		if r.swapLimit {
			res.MemorySwap = l.MemoryBytes // memory and swap together: no swap
		}
	}
	if r.limits.CPU {
		res.CpuPeriod = period
		res.CpuQuota = int64(math.Ceil(l.CPUs * period))
	}
	if r.limits.PIDs {
		res.PidsLimit = &l.PIDs
	}
	return cg
}

// rlimits hold with and without cgroups (setrlimit(2)); they are libcontainer's
// Process.Rlimits, which go before those of the configuration.
func (r *Runner) rlimits(l sandbox.Limits) []configs.Rlimit {
	all := []configs.Rlimit{
		same(unix.RLIMIT_CORE, 1), // none, nor to a program of the host's: see the filter
		{Type: unix.RLIMIT_NOFILE, Soft: softFiles, Hard: min(hardFiles, r.maxFiles)},
		same(unix.RLIMIT_NPROC, uint64(l.PIDs)),
		same(unix.RLIMIT_MEMLOCK, 64<<10),
		same(unix.RLIMIT_MSGQUEUE, 0),
		same(unix.RLIMIT_SIGPENDING, 4096),
		same(unix.RLIMIT_NICE, 0), // nobody goes before where he is
		same(unix.RLIMIT_RTPRIO, 0),
		same(unix.RLIMIT_FSIZE, uint64(max(l.WorkBytes, l.TmpBytes, l.ShmBytes, 1<<20))),
	}
	if !r.memoryLimited() {
		// One process's data, in reserve and in use: what is plainly too much is a
		// MemoryError. Threads reserve far more than they use, and OpenBLAS waits
		// for ever when it gets none: eight of its threads, called from eight of
		// the program's, have reserved 2.2 GB and used 0.15 GB.
		const reserve = 4 << 30
		all = append(all, same(unix.RLIMIT_DATA, uint64(l.MemoryBytes)+reserve))
	}
	return all
}

func same(kind int, n uint64) configs.Rlimit { return configs.Rlimit{Type: kind, Soft: n, Hard: n} }

// process is the first process: the step, which becomes Python with arguments.
func (r *Runner) process(own slice, l sandbox.Limits, filter string, arguments ...string) *libcontainer.Process {
	user := agent
	mode := "plain"
	if own.single {
		user, mode = 0, "single"
	}
	pages := "any"
	if !r.memoryLimited() {
		pages = "small" // what is watched comes in faults that tell how much it is
	}
	n := threads(l)
	return &libcontainer.Process{
		Args: append([]string{stepPath, "step", mode, pages, filter, rootfs.Python, parentPath}, arguments...),
		Env: []string{
			"PATH=/work/workspace/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/games",
			"HOME=/tmp/home", "USER=agent", "LOGNAME=agent", "SHELL=/bin/bash", "LANG=C.UTF-8", "TERM=dumb", "TMPDIR=/tmp",
			"WORKSPACE_DIR=/work/workspace", "MPLBACKEND=agg", "MPLCONFIGDIR=/tmp/home/.config/matplotlib",
			"OPENBLAS_NUM_THREADS=" + n, "OMP_NUM_THREADS=" + n,
			"PYTHONDONTWRITEBYTECODE=1",
		},
		UID: user, GID: user, Cwd: "/", Init: true,
		Rlimits: r.rlimits(l),
	}
}

// threads is how many of them libraries are to start, as the environment says it.
func threads(l sandbox.Limits) string { return strconv.Itoa(int(math.Ceil(l.CPUs))) }
