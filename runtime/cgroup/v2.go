package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// wanted are the controllers of version 2 that limits need.
var wanted = []string{"memory", "cpu", "pids"}

// makeV2 makes the group below the root's as root, else below the highest group
// above our own that belongs to us: what systemd delegates to a user, or a
// scope started with Delegate=yes.
func makeV2(instance string, uid int) (*Group, error) {
	base, names := placeV2(instance)
	if base == "" {
		return &Group{V2: true}, nil
	}
	g, err := makeV2At(base, names, uid)
	if os.Getuid() == 0 && notOurs(err) {
		return &Group{V2: true}, nil
	}
	return g, err
}

// placeV2 returns the group below which that of instance is, "" if it can have
// none, and the names of the groups that lead to it.
func placeV2(instance string) (base string, names []string) {
	if os.Getuid() == 0 {
		return "/", []string{Name, instance}
	}
	return delegated(), []string{Name + "-" + instance}
}

// pathV2 is where the group of instance is, "" if it can have none.
func pathV2(instance string) string {
	base, names := placeV2(instance)
	if base == "" {
		return ""
	}
	return filepath.Join(append([]string{base}, names...)...)
}

func makeV2At(base string, names []string, uid int) (*Group, error) {
	g := &Group{V2: true}
	dir := filepath.Join(root, base)
	enable(dir)
	if err := makeOwned(dir, names, uid); err != nil {
		return nil, err
	}
	for _, name := range names {
		dir = filepath.Join(dir, name)
		enable(dir)
	}
	g.dirs = []string{dir}
	g.Path = filepath.Join(append([]string{"/", base}, names...)...)
	if err := makeOwned(dir, []string{"shim"}, uid); err != nil {
		return nil, errors.Join(err, g.Remove(0))
	}
	on := controllers(filepath.Join(dir, "cgroup.subtree_control"))
	g.Limits = Limits{
		Memory: slices.Contains(on, "memory"),
		CPU:    slices.Contains(on, "cpu"),
		PIDs:   slices.Contains(on, "pids"),
	}
	return g, nil
}

// enable turns on, for the groups below dir, each controller that dir has. One
// that cannot be had is left off: Limits tells.
func enable(dir string) {
	have := controllers(filepath.Join(dir, "cgroup.controllers"))
	for _, c := range wanted {
		if slices.Contains(have, c) {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
		}
	}
}

func controllers(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// delegated returns the highest group above this process's that belongs to its
// user and can be divided, from the root of the hierarchy; "" if there is none.
func delegated() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return delegatedAbove(string(text))
}

// delegatedAbove is delegated for a process whose /proc/self/cgroup holds text.
func delegatedAbove(text string) string {
	own := ""
	for line := range strings.Lines(text) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = p
		}
	}
	found := ""
	for p := own; p != "" && p != "/" && p != "."; p = filepath.Dir(p) {
		dir := filepath.Join(root, p)
		if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil ||
			unix.Access(filepath.Join(dir, "cgroup.subtree_control"), unix.W_OK) != nil {
			break
		}
		found = p
	}
	return found
}
