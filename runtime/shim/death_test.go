package shim

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// A server is another process of this program that holds a Runner; see hold.
type server struct {
	*exec.Cmd
	instance string
	stdout   *bufio.Reader
}

// startServer starts a server and waits until code runs in its sandboxes.
func startServer(t *testing.T) *server {
	t.Helper()
	need.Namespaces(t)
	need.Python(t)
	s := &server{instance: newInstance()}
	s.Cmd = exec.CommandContext(t.Context(), "/proc/self/exe", need.Shim(t))
	s.Env = append(os.Environ(), serverVariable+"="+s.instance)
	s.Stderr = t.Output()
	s.WaitDelay = time.Second
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.stdout = bufio.NewReader(out)
	if line, err := s.stdout.ReadString('\n'); line != "running\n" {
		t.Fatalf("the server said %q, %v", line, err)
	}
	return s
}

// kill ends the server as a crash would.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.Wait() // says that it was killed
}

// shim returns the server's shim.
func (s *server) shim(t *testing.T) proc {
	t.Helper()
	for _, p := range processes(s.Process.Pid) {
		if strings.Contains(p.command, "cloche-shim\x00serve") {
			return p
		}
	}
	t.Fatal("the server has no shim")
	return proc{}
}

// groups returns the directories of an instance's control groups.
func groups(instance string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/cloche/", "/sys/fs/cgroup/cloche/"} {
		dirs, _ := filepath.Glob(pattern + instance)
		found = append(found, dirs...)
	}
	return found
}

// A proc is a process as it is told from a later one with the same id.
type proc struct {
	pid            int
	start, command string
}

// processes returns those that descend from pid.
func processes(pid int) []proc {
	var all []proc
	for _, d := range sandboxtest.Descendants(pid) {
		p := proc{pid: d, start: startOf(d)}
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d))
		p.command = string(command)
		all = append(all, p)
	}
	return all
}

// ours returns this process's shim and what runs in its sandboxes.
func ours() []proc {
	return slices.DeleteFunc(processes(os.Getpid()), func(p proc) bool {
		return !strings.Contains(p.command, "cloche-shim\x00serve") && !strings.Contains(p.command, "parent.py")
	})
}

// startOf returns when a process started, "" if it ended.
func startOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if f[0] == "Z" {
		return "" // it ended, and waits for whoever is to know
	}
	return f[19]
}

func (p proc) lives() bool { return p.start != "" && startOf(p.pid) == p.start }

// gone checks that all end soon.
func gone(t *testing.T, all []proc) {
	t.Helper()
	sandboxtest.Eventually(t, func() error {
		for _, p := range all {
			if p.lives() {
				return fmt.Errorf("process %d lives: %q", p.pid, p.command)
			}
		}
		return nil
	})
}

// noGroups checks that an instance's control groups go soon.
func noGroups(t *testing.T, instance string) {
	t.Helper()
	sandboxtest.Eventually(t, func() error {
		if left := groups(instance); len(left) > 0 {
			return fmt.Errorf("left behind: %v", left)
		}
		return nil
	})
}

func TestServerDies(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		s := startServer(t)
		if os.Getuid() == 0 && len(groups(s.instance)) == 0 {
			need.Cgroup(t)
			t.Fatal("the server has no control group")
		}
		all := processes(s.Process.Pid)
		if len(all) < 7 { // the shim, and in each sandbox the parent and two more
			t.Fatalf("processes of the server: %v", all)
		}
		s.kill(t)
		gone(t, all)
		noGroups(t, s.instance)
		if strings.Contains(sandboxtest.Mounts(t), "cloche") {
			t.Errorf("mounts of the host: %s", sandboxtest.Mounts(t))
		}
	})
}

// TestServerDiesAtAnyMoment: while sandboxes start and end.
func TestServerDiesAtAnyMoment(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		for range 5 {
			s := startServer(t)
			<-time.After(time.Duration(rand.Int64N(int64(100 * time.Millisecond))))
			shim := s.shim(t)
			s.kill(t)
			gone(t, []proc{shim}) // and with it the namespace that all are in
			noGroups(t, s.instance)
		}
	})
}

func TestShimDies(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		r := newRunner(t)
		b := sandboxtest.Start(t, r, sandboxtest.Spec())
		other := sandboxtest.Start(t, r, sandboxtest.Spec())
		stop := b.Background("begun", stubborn)
		all := ours()
		i := slices.IndexFunc(all, func(p proc) bool { return strings.Contains(p.command, "cloche-shim") })
		if i < 0 || len(all) < 5 {
			t.Fatalf("processes: %v", all)
		}
		if err := syscall.Kill(all[i].pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-b.Gone()
		if got := stop(); got.Lost == "" || got.Out != "begun" {
			t.Errorf("the running call: %+v, want the sandbox to be lost", got)
		}
		gone(t, all)
		<-other.Gone()
		if err := other.Refresh(t.Context()); err == nil {
			t.Error("Refresh of a sandbox whose shim died = nil, want an error")
		}
		before := groups(r.o.Instance)
		sandboxtest.Start(t, r, sandboxtest.Spec()).Works()
		if os.Getuid() == 0 && len(before) > 0 {
			below, _ := filepath.Glob(filepath.Join(before[0], "*/"))
			dirs := slices.DeleteFunc(below, func(name string) bool { return !isDir(name) })
			if len(dirs) != 2 { // the other is the new template's
				t.Errorf("sandboxes' groups: %v, want that of the new one alone, and its template's", dirs)
			}
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		noGroups(t, r.o.Instance)
	})
}

func isDir(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.IsDir()
}

// TestShimHangs: a shim that does nothing any more is ended, in bounded time.
func TestShimHangs(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		r := newRunner(t)
		b := sandboxtest.Start(t, r, sandboxtest.Spec())
		b.Background("begun", stubborn)
		all := ours()
		pid := r.link.process.cmd.Process.Pid
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := r.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if took := time.Since(start); took > endTimeout+soon {
			t.Errorf("Close took %v, want at most %v", took, endTimeout+soon)
		}
		gone(t, slices.DeleteFunc(all, func(p proc) bool {
			return !strings.Contains(p.command, "cloche-shim") && !strings.Contains(p.command, "parent.py")
		}))
		noGroups(t, r.o.Instance)
	})
}

// TestBothDie: what neither could remove is removed by who knows the name.
func TestBothDie(t *testing.T) {
	need.Cgroup(t)
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("frozen %v", frozen), func(t *testing.T) {
			s := startServer(t)
			shim := s.shim(t)
			// It must not see the server's end first.
			if err := syscall.Kill(shim.pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			all := processes(s.Process.Pid)
			if frozen {
				freeze(t, s.instance)
			}
			s.kill(t)
			if err := syscall.Kill(shim.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !frozen {
				gone(t, all)
			}
			if len(groups(s.instance)) == 0 {
				t.Fatal("nothing is left to be removed")
			}
			g := cgroup.Find(s.instance)
			g.Kill()
			if err := g.Remove(soon); err != nil {
				t.Errorf("Remove = %v", err)
			}
			gone(t, all)
			noGroups(t, s.instance)
		})
	}
}

// freeze freezes the sandboxes of an instance.
func freeze(t *testing.T, instance string) {
	t.Helper()
	v1, _ := filepath.Glob("/sys/fs/cgroup/freezer/cloche/" + instance + "/*/freezer.state")
	v2, _ := filepath.Glob("/sys/fs/cgroup/cloche/" + instance + "/*/cgroup.freeze")
	for _, file := range slices.Concat(v1, v2) {
		if strings.Contains(file, "/shim/") {
			continue
		}
		value := "FROZEN"
		if filepath.Base(file) == "cgroup.freeze" {
			value = "1"
		}
		if err := os.WriteFile(file, []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			t.Fatal(err)
		}
	}
	if len(v1)+len(v2) == 0 {
		t.Fatal("there is nothing to freeze")
	}
}
