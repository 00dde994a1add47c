package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/rootfs"
)

// A Host is what figures depend on.
type Host struct {
	Time         string `json:"time"` // when it was measured
	Cloche       string `json:"cloche"`
	System       string `json:"system,omitempty"`
	Kernel       string `json:"kernel"`
	Architecture string `json:"architecture"`
	Processor    string `json:"processor,omitempty"`
	Processors   int    `json:"processors"`
	MemoryBytes  int64  `json:"memory_bytes"`
	// Cgroup is the version of the control groups that limits are set in: 1 or 2; 0
	// where none are mounted.
	Cgroup int    `json:"cgroup"`
	Root   bool   `json:"root"`
	Python string `json:"python,omitempty"`
	Runc   string `json:"runc,omitempty"`
}

// String says it in one line.
func (h Host) String() string {
	processors := human.Plural(int64(h.Processors), "processor")
	if h.Processor != "" {
		processors += " (" + h.Processor + ")"
	}
	groups := "no control groups"
	if h.Cgroup > 0 {
		groups = fmt.Sprintf("control groups of version %d", h.Cgroup)
	}
	user, runc := "as an ordinary user", "no runc"
	if h.Root {
		user = "as root"
	}
	if h.Runc != "" {
		runc = "runc " + h.Runc
	}
	parts := []string{
		"cloche " + h.Cloche, h.System, "Linux " + h.Kernel + " on " + h.Architecture, processors, human.Bytes(h.MemoryBytes) + " of memory",
		groups, user, "Python " + h.Python, runc,
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// look finds out what there is to measure with, and on.
func (b *bench) look(ctx context.Context) error {
	h := Host{
		Time: time.Now().UTC().Format(time.RFC3339), Cloche: b.o.Version, Architecture: runtime.GOARCH,
		Processors: runtime.NumCPU(), Root: os.Getuid() == 0,
	}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		h.Cgroup = 1
	}
	if cgroup.V2() {
		h.Cgroup = 2
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	h.Kernel = unix.ByteSliceToString(u.Release[:])
	h.System = field("/etc/os-release", "PRETTY_NAME", "=")
	h.Processor = field("/proc/cpuinfo", "model name", ":")
	var err error
	if h.MemoryBytes, err = kilobytes("/proc/meminfo", "MemTotal"); err != nil {
		return err
	}
	version, err := b.python(ctx, "import platform; print(platform.python_version())")
	if err != nil {
		return fmt.Errorf("run %s; cloche doctor may say why: %w", rootfs.Python, err)
	}
	h.Python = strings.TrimSpace(version)
	if err := b.findRunc(ctx, &h); err != nil {
		return err
	}
	b.unimportable = b.missingLibraries(ctx)
	b.host = h
	return nil
}

// field returns a value of a file of names and values, "" if it is not there.
func field(file, name, separator string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// findRunc finds runc: the one that was named, else one in PATH, else where
// Debian has it, which is not in an ordinary user's. Only the first has to be
// there.
func (b *bench) findRunc(ctx context.Context, h *Host) error {
	names := []string{"runc", "/usr/sbin/runc", "/sbin/runc"}
	if b.o.Runc != "" {
		names = []string{b.o.Runc}
	}
	var err error
	for _, name := range names {
		var path string
		if path, err = exec.LookPath(name); err != nil {
			continue
		}
		out, verr := exec.CommandContext(ctx, path, "--version").Output()
		version, ok := strings.CutPrefix(string(out), "runc version ")
		if verr != nil || !ok {
			err = fmt.Errorf("%s does not tell the version of runc", path)
			continue
		}
		version, _, _ = strings.Cut(version, "\n")
		b.runc, h.Runc = path, version
		return nil
	}
	if b.o.Runc != "" {
		return err
	}
	return nil
}
