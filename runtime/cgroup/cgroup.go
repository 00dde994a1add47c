// Package cgroup makes the control group below which one shim's sandboxes live,
// and hands it to the shim's user: of each hierarchy of version 1, or of the
// one of version 2. Whoever makes it is the server; the shim has no more power
// over cgroups than what it is given here.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Name is the directory below which all of cloche's groups are.
const Name = "cloche"

// root is where control groups are mounted (cgroups(7)).
var root = "/sys/fs/cgroup" // tests have another

// Limits says which limits a group can enforce.
type Limits struct{ Memory, CPU, PIDs bool }

// All says that each kind of limit is enforced.
func (l Limits) All() bool { return l.Memory && l.CPU && l.PIDs }

// A Group is a control group delegated to a shim. Its zero value is no group.
type Group struct {
	// Path is the group's, from the root of each hierarchy; "" if there is none.
	Path string
	// V2 says that it is one of version 2.
	V2 bool
	// Limits are those that can be set below it.
	Limits Limits

	dirs []string // its directories, one a hierarchy
}

// V2 says whether this host has control groups of version 2 alone.
func V2() bool {
	var st unix.Statfs_t
	return unix.Statfs(root, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// Make makes the group for instance and gives it to uid. Without the right to
// make one it returns a Group whose Path is "" and no error: then rlimits are
// all there is. After an error nothing is left behind.
func Make(instance string, uid int) (*Group, error) {
	var g *Group
	var err error
	if V2() {
		g, err = makeV2(instance, uid)
	} else {
		g, err = makeV1(instance, uid)
	}
	if err != nil {
		return nil, fmt.Errorf("make control group for %s: %w", instance, err)
	}
	return g, nil
}

// ShimDir returns the directory of the group for the shim itself, "" if it
// stays where its server is: version 2 lets nobody move processes in from
// outside a delegated tree.
func (g *Group) ShimDir() string {
	if !g.V2 || g.Path == "" {
		return ""
	}
	return filepath.Join(root, g.Path, "shim")
}

// Remove removes the group and what is below it, as soon as no process is left
// there, for at most wait. Removing what is gone is no error.
func (g *Group) Remove(wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for _, dir := range g.dirs {
		for {
			err := removeTree(dir)
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
				return fmt.Errorf("remove control group: %w", err)
			}
			pause(time.Millisecond)
		}
	}
	return nil
}

// Kill ends every process in the group and below it, also one that is frozen.
func (g *Group) Kill() {
	for _, dir := range g.dirs {
		killTree(dir)
	}
}

// Find returns the group of an instance of which nothing but the name is known,
// in order to kill and remove what it left behind.
func Find(instance string) *Group {
	if V2() {
		return At(pathV2(instance))
	}
	return At("/" + Name + "/" + instance)
}

// At returns the group at path, "" for none, in order to kill and remove what is
// there.
func At(path string) *Group {
	g := &Group{Path: path, V2: V2()}
	if path == "" {
		return g
	}
	if g.V2 {
		g.dirs = []string{filepath.Join(root, g.Path)}
		return g
	}
	for _, h := range hierarchies() {
		g.dirs = append(g.dirs, filepath.Join(root, h, g.Path))
	}
	return g
}

// Thaw lets go of what the freezer of version 1 holds in the group at path, which
// else no signal ends. Thawing what is not frozen, or not there, does nothing.
func Thaw(path string) {
	if path != "" {
		_ = os.WriteFile(filepath.Join(root, "freezer", path, "freezer.state"), []byte("THAWED"), 0)
	}
}

// makeV1 makes the group in each hierarchy of version 1.
func makeV1(instance string, uid int) (*Group, error) {
	g := &Group{}
	if os.Getuid() != 0 {
		return g, nil // version 1 cannot be delegated safely (cgroups(7))
	}
	for _, h := range hierarchies() {
		dir := filepath.Join(root, h, Name, instance)
		if err := makeOwned(filepath.Join(root, h), []string{Name, instance}, uid); err != nil {
			if h == "unified" || notOurs(err) {
				continue
			}
			g.Kill()
			return nil, errors.Join(err, g.Remove(0))
		}
		g.dirs = append(g.dirs, dir)
		switch h {
		case "memory":
			g.Limits.Memory = true
		case "cpu", "cpu,cpuacct":
			g.Limits.CPU = true
		case "pids":
			g.Limits.PIDs = true
		}
	}
	if len(g.dirs) > 0 {
		g.Path = "/" + Name + "/" + instance
	}
	return g, nil
}

// notOurs says that a group cannot be made for want of a right: EINVAL is the
// answer for an id that a user namespace lacks.
func notOurs(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EINVAL)
}

// hierarchies lists the directories below root that are mounts of a hierarchy.
func hierarchies() []string {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		var st unix.Statfs_t
		if !e.IsDir() || unix.Statfs(filepath.Join(root, e.Name()), &st) != nil {
			continue
		}
		if st.Type == unix.CGROUP_SUPER_MAGIC || st.Type == unix.CGROUP2_SUPER_MAGIC {
			names = append(names, e.Name())
		}
	}
	return names
}

// makeOwned makes the nested directories names below dir and gives them to uid.
func makeOwned(dir string, names []string, uid int) error {
	for _, name := range names {
		parent := dir
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if name == Name || strings.HasPrefix(name, Name+"-") {
			// Sandboxes give way to their server, and to whatever else is there. A
			// kernel without the controller has no such file.
			_ = os.WriteFile(filepath.Join(dir, "cpu.shares"), []byte("512"), 0)
			_ = os.WriteFile(filepath.Join(dir, "cpu.weight"), []byte("50"), 0)
		}
		// A new cpuset group has no processor and no memory and takes no process.
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(filepath.Join(parent, f), filepath.Join(dir, f)); err != nil {
				return err
			}
		}
		for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "tasks"} {
			if err := os.Chown(filepath.Join(dir, f), uid, uid); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// inherit copies a control file of version 1 to a group where it is empty.
func inherit(from, to string) error {
	have, err := os.ReadFile(to)
	if err != nil || strings.TrimSpace(string(have)) != "" {
		return nil //nolint:nilerr // the hierarchy has no such file
	}
	value, err := os.ReadFile(from)
	if err != nil || strings.TrimSpace(string(value)) == "" {
		return err
	}
	return os.WriteFile(to, value, 0)
}

// removeTree removes the group dir and the groups below it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	// rmdir(2) itself: os.Remove would try unlink first.
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// killTree kills what is in dir and below it.
func killTree(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			killTree(filepath.Join(dir, e.Name()))
		}
	}
	// What the freezer of version 1 holds does not die until it is thawed.
	_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
	if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}
