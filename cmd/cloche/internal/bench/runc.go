package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/shim"
)

// A bundle is what runc runs: the program that sandboxes start with, in as many
// namespaces of its own, with the same limits, the same /usr, and no filter of
// system calls.
type bundle struct {
	runc, dir string
	made      int // containers so far
}

// runcPeer returns what has runc run the program, or why nothing can.
func (b *bench) runcPeer(ctx context.Context, setup shim.Setup, limits sandbox.Limits) (measured, string) {
	if b.runc == "" {
		return nil, "runc is not in PATH; --runc names one"
	}
	dir, err := os.MkdirTemp(b.dir, "runc-")
	if err != nil {
		return nil, err.Error()
	}
	u := &bundle{runc: b.runc, dir: dir}
	if err := u.make(setup, limits); err != nil {
		return nil, "the bundle for runc cannot be made: " + err.Error()
	}
	if _, err := u.run(ctx); err != nil {
		return nil, "runc does not run the program: " + err.Error()
	}
	return u.run, ""
}

// run has runc make a container, waits until its Python is ready, and ends it.
func (u *bundle) run(ctx context.Context) (took time.Duration, err error) {
	u.made++
	id := fmt.Sprintf("%s-%d", filepath.Base(u.dir), u.made)
	state := filepath.Join(u.dir, "state")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	cmd := exec.CommandContext(ctx, u.runc, "--root", state, "run", "--bundle", u.dir, "--preserve-fds", "1", id)
	cmd.ExtraFiles = []*os.File{theirs}
	// Its program ends when nobody holds the other end any more, and with it runc.
	cmd.Cancel = conn.Close
	cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_ = theirs.Close() // or the end of runc would not be seen
	ready := make([]byte, 64)
	n, rerr := conn.Read(ready)
	_ = conn.Close()
	err = cmd.Wait()
	took = time.Since(begin)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && rerr == nil && strings.HasPrefix(string(ready[:n]), "ready ") {
		return took, nil
	}
	u.remove(ctx, state, id)
	if err == nil {
		err = fmt.Errorf("the program did not get ready: %w", rerr)
	}
	return 0, fmt.Errorf("%w: %s", err, lastLine(said.Bytes()))
}

// remove removes what may be left of a container that did not end well.
func (u *bundle) remove(ctx context.Context, state, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	// Most often there is nothing left, and runc says so.
	_ = exec.CommandContext(ctx, u.runc, "--root", state, "delete", "--force", id).Run()
}

// parentPath is where the program is, inside.
const parentPath = "/.cloche/parent.py"

// make makes the root file system and the configuration.
func (u *bundle) make(setup shim.Setup, limits sandbox.Limits) error {
	root := filepath.Join(u.dir, "rootfs")
	for _, dir := range append([]string{"usr", "proc", "dev", "etc", ".cloche"}, rootfs.Places...) {
		if dir == "/dev/shm" {
			continue // runc makes it on its /dev
		}
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, parentPath), []byte(pydriver.Source), 0o644); err != nil {
		return err
	}
	cache, err := os.ReadFile("/etc/ld.so.cache")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "etc/ld.so.cache"), cache, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mounts := []any{mount("proc", "/proc", "proc", "nosuid", "nodev", "noexec"), bind("/usr")}
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		switch target, err := os.Readlink(name); {
		case err == nil:
			if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
				return err
			}
		case !errors.Is(err, fs.ErrNotExist): // a folder, on hosts where it is not in /usr
			if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
				return err
			}
			mounts = append(mounts, bind(name))
		}
	}
	mounts = append(mounts, mount("tmpfs", "/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"))
	for _, place := range rootfs.Places {
		mounts = append(mounts, mount("tmpfs", place, "tmpfs", "nosuid", "nodev", "mode=1777"))
	}
	text, err := json.Marshal(configOf(mounts, setup, limits))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(u.dir, "config.json"), text, 0o600)
}

// An object is one of the configuration that the OCI runtime specification
// describes.
type object = map[string]any

func mount(source, destination, kind string, options ...string) object {
	return object{"source": source, "destination": destination, "type": kind, "options": options}
}

func bind(path string) object { return mount(path, path, "bind", "rbind", "ro", "nosuid", "nodev") }

// configOf returns the configuration.
func configOf(mounts []any, setup shim.Setup, limits sandbox.Limits) object {
	namespaces := []object{}
	for _, kind := range []string{"user", "pid", "mount", "network", "ipc", "uts", "cgroup"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	ids, user := ids(), 0
	if ids > agent {
		user = agent
	}
	linux := object{
		"namespaces":  namespaces,
		"uidMappings": []object{{"containerID": 0, "hostID": os.Getuid(), "size": ids}},
		"gidMappings": []object{{"containerID": 0, "hostID": os.Getgid(), "size": ids}},
		"resources":   resources(setup, limits),
		"maskedPaths": []string{
			"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
		},
		"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
	if setup.Cgroup != "" {
		// Below the group of the shim, where sandboxes are, and removed with it.
		linux["cgroupsPath"] = setup.Cgroup + "/runc"
	}
	return object{
		"ociVersion": "1.0.2",
		"hostname":   "sandbox",
		"root":       object{"path": "rootfs", "readonly": true},
		"mounts":     mounts,
		"linux":      linux,
		"process": object{
			"user": object{"uid": user, "gid": user},
			"args": []string{rootfs.Python, parentPath},
			"env": []string{
				"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp/home", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1",
			},
			"cwd": "/", "noNewPrivileges": true, "capabilities": object{}, "oomScoreAdj": 0,
		},
	}
}

// resources are the limits that sandboxes have.
func resources(setup shim.Setup, limits sandbox.Limits) object {
	r := object{}
	if setup.Limits.Memory {
		r["memory"] = object{"limit": limits.MemoryBytes}
	}
	if setup.Limits.CPU {
		const period = 100_000
		r["cpu"] = object{"period": period, "quota": int64(math.Ceil(limits.CPUs * period))}
	}
	if setup.Limits.PIDs {
		r["pids"] = object{"limit": limits.PIDs}
	}
	return r
}

// agent is the user that code runs as, inside, where there are so many ids.
const agent = 1000

// ids returns how many ids a container's user namespace gets: of root's own as
// many as programs expect, else the one that an ordinary user has.
func ids() int {
	const enough = 1 << 16
	text, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside, size int
	if _, serr := fmt.Sscan(string(text), &inside, &outside, &size); err != nil || serr != nil || os.Getuid() != 0 || inside != 0 || size < enough {
		return 1
	}
	return enough
}
