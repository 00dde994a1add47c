package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain fails when a process outlives the tests. An orphan of a program that
// a test started becomes a child of this process, and so cannot hide.
func TestMain(m *testing.M) {
	unix.Umask(0o022) // a configuration that others may write is refused
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "become the parent of orphans:", err)
		os.Exit(1)
	}
	code := m.Run()
	if left := outlived(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes that outlived the tests: %v\n", left)
		code = max(code, 1)
	}
	os.Exit(code)
}

// outlived waits for the end of what tests started, and returns what stays.
func outlived() []process {
	for end := time.Now().Add(5 * time.Second); ; <-time.After(often) {
		left := slices.DeleteFunc(descendants(os.Getpid()), func(p process) bool {
			return p.name == "sh" && p.parent == os.Getpid() // it removes the programs once this process is gone
		})
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// A process is one of the host. Its start tells it from a later one with the
// same number.
type process struct {
	pid, parent int
	name, start string
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.name) }

// look returns the process of that number; false if there is none, or a dead one
// (proc(5)).
func look(pid int) (process, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
	if err != nil || open < 0 || end < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, name: string(text[open+1 : end]), start: fields[19]}, err == nil
}

// descendants lists the processes below one.
func descendants(pid int) (below []process) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if p, ok := look(child); ok {
				below = append(below, p)
			}
			below = append(below, descendants(child)...)
		}
	}
	return below
}

// Holdings are what a server has on its host.
type holdings struct {
	processes []process
	groups    []string // names of its control groups
	mounts    []string // those of this mount namespace, with and without it
}

// holdings lists what the server has now.
func (s *server) holdings() holdings {
	h := holdings{processes: descendants(s.cmd.Process.Pid), mounts: mounts()}
	// Others may have a lock in the same folder; this one's is open.
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.cmd.Process.Pid))
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, link := range links {
		file, err := os.Readlink(link)
		if name, ok := strings.CutSuffix(filepath.Base(file), ".lock"); err == nil && ok {
			h.groups = append(h.groups, name)
		}
	}
	return h
}

// ticks is when it started, in hundredths of a second since the machine did.
func (p process) ticks() int64 {
	n, err := strconv.ParseInt(p.start, 10, 64)
	if err != nil {
		panic(err) // proc_pid_stat(5) has a number there
	}
	return n
}

// gone checks that nothing of it is left, or will be in a few seconds.
func (h holdings) gone(t *testing.T) {
	t.Helper()
	left := func() (what []string) {
		for _, p := range h.processes {
			if q, ok := look(p.pid); ok && q.start == p.start {
				what = append(what, "process "+p.String())
			}
		}
		for _, name := range h.groups {
			what = append(what, groups(name)...)
		}
		for _, m := range mounts() {
			if !slices.Contains(h.mounts, m) {
				what = append(what, "mount "+m)
			}
		}
		return what
	}
	for end := time.Now().Add(5 * time.Second); ; <-time.After(often) {
		what := left()
		if len(what) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("the server left behind: %v", what)
			return
		}
	}
}

func mounts() []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		panic(err) // proc(5) has it
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// busy waits until code below pid has given its process that name, and returns
// the process.
func busy(t *testing.T, pid int, name string) (found process) {
	t.Helper()
	await(t, "a process "+name, func() bool {
		all := descendants(pid)
		i := slices.IndexFunc(all, func(p process) bool { return p.name == name })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// named is code that gives its process a name that the host sees.
func named(name string) string {
	return fmt.Sprintf("open('/proc/self/comm', 'w').write(%q)\n", name)
}
