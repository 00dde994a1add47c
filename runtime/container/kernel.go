package container

import (
	"fmt"
	"os"
	"strconv"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/sandbox"
)

// memoryLimited says whether control groups limit the memory of sandboxes.
func (r *Runner) memoryLimited() bool { return r.cgroup != "" && r.limits.Memory }

// processorsLimited says whether control groups limit their processor time.
func (r *Runner) processorsLimited() bool { return r.cgroup != "" && r.limits.CPU }

// behind is how what has no limit of processor time is scheduled: after this
// process and its server, and after whatever else is as important as they are.
// It returns nil where this process itself waits for idle processors or is not
// scheduled in the usual way, which what it starts inherits.
func behind() *configs.Scheduler {
	const (
		other, batch = 0, 3 // SCHED_OTHER, SCHED_BATCH (sched(7))
		steps, last  = 10, 19
	)
	now, err := unix.SchedGetAttr(0, 0)
	if err != nil || now.Policy != other && now.Policy != batch {
		return nil
	}
	return &configs.Scheduler{Policy: "SCHED_BATCH", Nice: min(now.Nice+steps, last)}
}

// ipcLimits says whether the root of a sandbox may set the limits of its IPC
// namespace: since Linux 5.19.
func ipcLimits() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 19
}

// tcpLimits says whether the kernel has limits for the buffers of connections.
func tcpLimits() bool {
	_, err := os.Stat("/proc/sys/net/ipv4/tcp_rmem")
	return err == nil
}

// sysctls are the limits of a sandbox's own namespaces: those of its user, and of
// what System V objects hold (sysvipc(7)), which outlives who made it: segments
// as much as the sandbox may have memory; messages, which are the kernel's
// memory, 4 MiB; and 32,000 semaphores, instead of a thousand million.
func (r *Runner) sysctls(own slice, l sandbox.Limits) map[string]string {
	all := own.counts()
	if r.tcpLimits {
		// What a connection holds at most of what nobody reads: not all kernels
		// count that (tcp(7)).
		all["net.ipv4.tcp_rmem"] = "4096 131072 524288"
		all["net.ipv4.tcp_wmem"] = "4096 16384 524288"
		// A port is free again when its call is over.
		all["net.ipv4.tcp_max_tw_buckets"] = "0"
	}
	if !r.ipcLimits {
		return all
	}
	page := int64(os.Getpagesize())
	all["kernel.shmmax"] = strconv.FormatInt(l.MemoryBytes, 10)
	all["kernel.shmall"] = strconv.FormatInt((l.MemoryBytes+page-1)/page, 10)
	all["kernel.msgmni"] = "256" // queues of kernel.msgmnb, 16 KiB
	all["kernel.sem"] = "250 32000 100 128"
	return all
}
