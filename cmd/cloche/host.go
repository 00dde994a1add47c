package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/instance"
	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/shim"
	"cloche.dev/cloche/tools/code"
)

// A host is what doctor looks at; tests look at a made-up one.
type host struct {
	root    string // where its files are: "/"
	uid     int
	release string // of its kernel
	shimAt  func() (string, error)
	// namespaces makes those that sandboxes need, for a moment.
	namespaces func(context.Context) error
}

func thisHost() host {
	var u unix.Utsname
	release := ""
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	return host{root: "/", uid: os.Getuid(), release: release, shimAt: shimPath, namespaces: namespaces}
}

// namespaces starts this program, with nothing to do, in namespaces of its own.
func namespaces(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "version")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd.Run()
}

// asRoot is a line of commands that need root.
func (h host) asRoot(commands ...string) string {
	if h.uid != 0 {
		for i, c := range commands {
			commands[i] = "sudo " + c
		}
	}
	return strings.Join(commands, " && ")
}

// there says whether the host has a file, or something else, of that name.
func (h host) there(name string) bool {
	_, err := os.Stat(filepath.Join(h.root, name))
	return err == nil
}

// newKernel installs one of the distribution's.
func (h host) newKernel() string {
	return h.asRoot("apt-get install linux-image-"+runtime.GOARCH, "reboot")
}

// quoted is a word of a shell's.
func quoted(word string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+:@%="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// oldest is the first kernel with mount_setattr(2), which the root filesystem
// is made with.
const oldestMajor, oldestMinor = 5, 12

func (h host) kernel() finding {
	var major, minor int
	if _, err := fmt.Sscanf(h.release, "%d.%d", &major, &minor); err != nil {
		return finding{"kernel", limited, fmt.Sprintf("its version %q cannot be read", h.release), ""}
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return finding{
			"kernel", missing, fmt.Sprintf("Linux %s; %d.%d or newer is needed", h.release, oldestMajor, oldestMinor),
			h.newKernel(),
		}
	}
	return finding{"kernel", good, "Linux " + h.release, ""}
}

// userNamespaces makes one, and reads the switches that forbid them.
func (h host) userNamespaces(ctx context.Context) finding {
	const name = "user namespaces"
	if !h.there("proc/self/ns/user") {
		return finding{name, missing, "this kernel was built without them", h.newKernel()}
	}
	switches := []struct{ file, bad, sysctl, what string }{
		{"proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000", "none are allowed"},
		{"proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1", "ordinary users may make none"},
		{"proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0", "AppArmor takes their power from ordinary users"},
	}
	for i, s := range switches {
		if i > 0 && h.uid == 0 {
			break // they are about ordinary users
		}
		text, err := os.ReadFile(filepath.Join(h.root, s.file))
		if err == nil && strings.TrimSpace(string(text)) == s.bad {
			return finding{name, missing, s.what, h.asRoot("sysctl -w " + s.sysctl)}
		}
	}
	err := h.namespaces(ctx)
	switch {
	case err == nil:
		return finding{name, good, "allowed", ""}
	case errors.Is(err, unix.ENOSPC):
		return finding{name, missing, "as many as are allowed are in use", h.asRoot("sysctl -w user.max_user_namespaces=15000")}
	case h.there(".dockerenv") || h.there("run/.containerenv"):
		return finding{
			name, missing, fmt.Sprintf("the container that this runs in forbids them (%v)", err),
			"docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined IMAGE",
		}
	}
	return finding{
		name, missing, fmt.Sprintf("none can be made, though no switch forbids them (%v); something that confines this process does", err),
		h.asRoot("cloche doctor"),
	}
}

func (h host) python() finding {
	if _, err := os.Stat(filepath.Join(h.root, rootfs.Python)); err != nil {
		return finding{"python", missing, rootfs.Python + " is not there", h.asRoot("apt-get install --no-install-recommends python3")}
	}
	return finding{"python", good, rootfs.Python, ""}
}

func (h host) shim() finding {
	path, err := h.shimAt()
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			f.Close()
		}
	}
	if err != nil {
		return finding{"cloche-shim", missing, readable(err), buildShim()}
	}
	return finding{"cloche-shim", good, path, ""}
}

// buildShim builds the shim beside this program.
func buildShim() string {
	dir := "."
	if self, err := os.Executable(); err == nil {
		dir = filepath.Dir(self)
	}
	return "CGO_ENABLED=1 go build -o " + quoted(dir) + "/ cloche.dev/cloche/cmd/cloche-shim"
}

func (h host) configuration(line *commandLine) finding {
	const name = "configuration"
	path, err := config.Find(line.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return finding{name, missing, err.Error(), "cloche policy show > " + quoted(line.Config)}
	}
	if err == nil {
		_, err = config.Load(path)
	}
	switch {
	case err != nil:
		return finding{name, missing, err.Error(), strings.TrimSpace("cloche policy check " + quoted(path))}
	case path == "":
		return finding{name, good, "no file; the defaults hold", ""}
	}
	return finding{name, good, path, ""}
}

func (h host) dataDirectory(line *commandLine) finding {
	const name = "data directory"
	dir, err := instance.DataDir(line.DataDir, h.uid, os.Getenv)
	if err != nil {
		return finding{name, missing, err.Error(), "cloche --data-dir DIR doctor"}
	}
	own, err := instance.Open(dir, sweep)
	if own == nil {
		return finding{name, missing, err.Error(), h.usable(dir)}
	}
	if cerr := own.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return finding{name, limited, "what a server that died has left cannot be removed: " + err.Error(), h.asRoot("cloche doctor")}
	}
	return finding{name, good, dir, ""}
}

// usable makes a data directory of dir.
func (h host) usable(dir string) string {
	var st unix.Stat_t
	switch err := unix.Stat(dir, &st); {
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return "mv " + quoted(dir) + " " + quoted(dir+".old")
	case err == nil && int(st.Uid) == h.uid:
		return "chmod 700 " + quoted(dir)
	}
	return h.asRoot(fmt.Sprintf("install -d -m 700 -o %d %s", h.uid, quoted(dir)))
}

// shows tells what a sandbox sees of the host beyond the distribution's
// packages.
func (h host) shows() finding {
	const most = 8
	entries, _ := filepath.Glob(filepath.Join(h.root, "usr/local/*/*"))
	var names []string
	for _, e := range entries {
		rel, err := filepath.Rel(filepath.Join(h.root, "usr"), e)
		if err == nil && !strings.HasPrefix(rel, "local/etc/") && !strings.HasPrefix(rel, "local/src/") && !strings.HasPrefix(rel, "local/sbin/") {
			names = append(names, rel)
		}
	}
	if len(names) == 0 {
		return finding{"host image", good, "sandboxes see the distribution's packages alone", ""}
	}
	detail := fmt.Sprintf("sandboxes see %s below /usr that no package brought", human.Plural(int64(len(names)), "thing"))
	detail += ": " + strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		detail += ", …"
	}
	return finding{"host image", good, detail + "; sandbox.host.hide leaves out what they should not", ""}
}

// sandbox runs code in a real one.
func (h host) sandbox(ctx context.Context, line *commandLine) []finding {
	var log lastLines
	a, err := openApp(ctx, line, &log, slog.LevelWarn, "doctor")
	if err != nil {
		return []finding{h.noSandbox(err, "")}
	}
	start := time.Now()
	inv, err := inventory.New(a.runner).Of(ctx, code.Kind(a.policy.Current()))
	took := time.Since(start)
	var setup shim.Setup
	if err == nil {
		setup, err = a.runner.Limited(ctx)
	}
	if err = errors.Join(err, a.Close(ctx)); err != nil {
		return []finding{h.noSandbox(err, log.String())}
	}
	return []finding{
		{"sandbox", good, fmt.Sprintf("started and ran Python %s in %s", inv.Python, human.Seconds(took)), ""},
		h.limits(setup),
		h.modules(inv),
	}
}

// noSandbox tells why there is none, though nothing that was looked at forbids
// it, with the last line of the log.
func (h host) noSandbox(err error, log string) finding {
	detail := readable(err)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if last := lines[len(lines)-1]; last != "" {
		detail += "; the log ends: " + last
	}
	return finding{"sandbox", missing, detail, buildShim()}
}

func (h host) limits(setup shim.Setup) finding {
	const name = "limits"
	if setup.Limits.All() {
		return finding{name, good, "memory, processors and processes, by control groups (version " + cgroupVersion() + ")", ""}
	}
	remedy := "sudo " + self() + " stdio"
	switch {
	case h.uid == 0 && cgroup.V2():
		remedy = "echo '+memory +cpu +pids' > /sys/fs/cgroup/cgroup.subtree_control"
	case h.uid == 0:
		remedy = "mkdir -p /sys/fs/cgroup/memory && mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory"
	case cgroup.V2():
		remedy = "systemd-run --user --scope -p Delegate=yes " + self() + " stdio"
	}
	return finding{
		name, limited,
		"no control group may be used for all of them: only the private memory of each process is limited, processors are not", remedy,
	}
}

// self is this program as a command that works from anywhere.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return "cloche"
	}
	return quoted(path)
}

func cgroupVersion() string {
	if cgroup.V2() {
		return "2"
	}
	return "1"
}

// modules says which of the usual libraries an agent will miss.
func (h host) modules(inv inventory.Inventory) finding {
	absent := map[string]string{"numpy": "python3-numpy", "pandas": "python3-pandas", "matplotlib": "python3-matplotlib"}
	for _, p := range inv.Packages {
		delete(absent, strings.ToLower(p.Name))
	}
	if len(absent) == 0 {
		return finding{"libraries", good, "numpy, pandas and matplotlib are there", ""}
	}
	var names, packages []string
	for _, m := range []string{"numpy", "pandas", "matplotlib"} {
		if absent[m] != "" {
			names, packages = append(names, m), append(packages, absent[m])
		}
	}
	return finding{
		"libraries", limited, "agents expect " + strings.Join(names, ", "),
		h.asRoot("apt-get install --no-install-recommends " + strings.Join(packages, " ")),
	}
}
