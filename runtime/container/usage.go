package container

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
)

// Usage implements sandbox.Container.
func (c *Container) Usage(context.Context) (u sandbox.Usage, err error) {
	if c.watcher != nil {
		kills, peak := c.watcher.Usage()
		return sandbox.Usage{OOMKills: kills + c.guarded.Kills(), PeakBytes: peak, Limited: true, Watched: true}, nil
	}
	state, err := c.lc.State()
	if err != nil {
		return sandbox.Usage{}, err
	}
	u.Limited = true
	defer func() { u.OOMKills += c.guarded.Kills() }()
	if cgroup.V2() {
		dir := state.CgroupPaths[""]
		u.OOMKills = field(filepath.Join(dir, "memory.events"), "oom_kill")
		u.PeakBytes = number(filepath.Join(dir, "memory.peak"))
		return u, nil
	}
	dir := state.CgroupPaths["memory"]
	u.OOMKills = field(filepath.Join(dir, "memory.oom_control"), "oom_kill")
	peak := filepath.Join(dir, "memory.max_usage_in_bytes")
	u.PeakBytes = number(peak)
	_ = os.WriteFile(peak, []byte("0"), 0) // starts anew from the present usage
	return u, nil
}

// field returns the number beside name in a file of lines "name number"; 0 if
// the kernel has no such file or field.
func field(file, name string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}

func number(file string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}
