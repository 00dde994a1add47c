package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Descendants returns the processes of this host that descend from pid.
func Descendants(pid int) []int {
	parents := map[int]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		// After the command's name, which may hold anything, come state and parent.
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
			continue
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parents[child] = parent
	}
	var found []int
	for child := range parents {
		for p := parents[child]; p != 0; p = parents[p] {
			if p == pid {
				found = append(found, child)
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

// A Trace is what sandboxes of this process are on the host.
type Trace struct {
	Processes []int
	// Groups are directories of control groups: those that the processes are in,
	// and those beside them.
	Groups []string
	Mounts int
}

// Mounts returns what is mounted in the mount namespace of this process, a line
// each (proc_pid_mountinfo(5)).
func Mounts(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// Traces returns the present Trace.
func Traces(tb testing.TB) Trace {
	tb.Helper()
	tr := Trace{Processes: Descendants(os.Getpid()), Mounts: strings.Count(Mounts(tb), "\n")}
	for _, pid := range tr.Processes {
		for _, dir := range groups(pid) {
			beside, _ := os.ReadDir(filepath.Dir(dir)) // it may have ended meanwhile
			for _, d := range beside {
				if d.IsDir() {
					tr.Groups = append(tr.Groups, filepath.Join(filepath.Dir(dir), d.Name()))
				}
			}
		}
	}
	slices.Sort(tr.Groups)
	tr.Groups = slices.Compact(tr.Groups)
	return tr
}

// groups returns the directories of cloche's control groups that pid is in.
func groups(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(text)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(path, ":")
		if !strings.Contains(path, "/cloche") {
			continue
		}
		for _, hierarchy := range []string{"", "unified", strings.TrimPrefix(controllers, "name=")} {
			dir := filepath.Join("/sys/fs/cgroup", hierarchy, path)
			if _, err := os.Stat(dir); err == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// Gone checks that soon no more is left of a Trace than was before it. If it
// knows a group, new ones beside that are found too.
func (tr Trace) Gone(tb testing.TB, before Trace) {
	tb.Helper()
	var left []string
	Eventually(tb, func() error {
		left = nil
		now := Traces(tb)
		for _, pid := range now.Processes {
			if !slices.Contains(before.Processes, pid) {
				left = append(left, fmt.Sprintf("process %d", pid))
			}
		}
		for _, dir := range slices.Concat(tr.Groups, now.Groups) {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) && !slices.Contains(before.Groups, dir) {
				left = append(left, dir)
			}
		}
		if now.Mounts > before.Mounts {
			left = append(left, fmt.Sprintf("%d mounts", now.Mounts-before.Mounts))
		}
		if len(left) > 0 {
			return fmt.Errorf("left behind: %v", left)
		}
		return nil
	})
}

// Eventually calls f until it returns nil, for a few seconds; then it is an
// error of the test.
func Eventually(tb testing.TB, f func() error) {
	tb.Helper()
	const limit = 5 * time.Second
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			tb.Errorf("after %v still: %v", limit, err)
			return
		}
	}
}
