package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// kill ends a process at once.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// TestServerKilled kills the server while code runs, in a way that leaves it no
// time. Nothing stays, and the next server of the same data directory works.
func TestServerKilled(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean, "")
		s.forced = true
		flight := s.begin(map[string]any{"code": named("orphan") + "import signal, subprocess, time\n" +
			"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)"})
		busy(t, s.cmd.Process.Pid, "orphan")
		busy(t, s.cmd.Process.Pid, "sleep")
		left := s.holdings()
		if len(left.processes) < 4 || len(left.groups) != 1 {
			t.Errorf("before its death the server has %+v", left)
		}
		kill(t, s.cmd.Process.Pid)
		if o := <-flight; o.err == nil {
			t.Errorf("the call in flight answered %s", o.text)
		}
		s.ended()
		left.gone(t)

		next := start(t, lean, "--data-dir", s.data)
		next.connect("")
		next.works()
		if now := names(t, s.data); slices.Contains(now, left.groups[0]) || len(now) != 1 {
			t.Errorf("names in the data directory: %v, after %v", now, left.groups)
		}
	})
}

// TestShimKilled kills the program that makes containers, during a call and
// between two: the call says so, the next one works.
func TestShimKilled(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean, "")
		s.warns = true
		s.works()
		flight := s.begin(map[string]any{"code": named("shimless") + "print('begun')\nimport time\ntime.sleep(600)"})
		busy(t, s.cmd.Process.Pid, "shimless")
		left := s.holdings()
		kill(t, s.shim())
		a := (<-flight).whole(t)
		if a.Exit.Reason != "lost" || !strings.Contains(a.text, "the next call gets a new one") || a.Stdout != "begun\n" {
			t.Errorf("the call in flight answered:\n%s", a.text)
		}
		left.groups = nil // the server keeps its name
		left.gone(t)
		s.works()

		between := s.run(which)
		left = s.holdings()
		kill(t, s.shim())
		left.groups = nil
		left.gone(t)
		if after := s.run(which); after.Exit.Code == nil || *after.Exit.Code != 0 || after.Conversation != between.Conversation {
			t.Errorf("after the shim's death a call answered:\n%s\nbefore:\n%s", after.text, between.text)
		}
		s.works()
	})
}

// shim returns the server's.
func (s *server) shim() int {
	s.t.Helper()
	for _, p := range descendants(s.cmd.Process.Pid) {
		if p.parent == s.cmd.Process.Pid {
			return p.pid
		}
	}
	s.t.Fatalf("the server has no shim; its log:\n%s", s.log)
	return 0
}

// TestKilledWhileFrozen kills a server, its shim or both while their sandboxes
// are frozen, as by an administrator, so that a kill alone ends nothing there.
// After the next start nothing is left.
func TestKilledWhileFrozen(t *testing.T) {
	need.Cgroup(t)
	need.Python(t)
	for _, test := range []struct {
		name string
		die  func(s *server, shim int)
	}{
		{"server", func(s *server, _ int) { kill(s.t, s.cmd.Process.Pid) }},
		{"shim", func(s *server, shim int) {
			kill(s.t, shim)
			s.answers("after its shim's death", 1) // the warm sandbox is lost, too
			kill(s.t, s.cmd.Process.Pid)
		}},
		{"both", func(s *server, shim int) {
			// It is not to see the server's end first.
			if err := syscall.Kill(shim, syscall.SIGSTOP); err != nil {
				s.t.Fatal(err)
			}
			kill(s.t, s.cmd.Process.Pid)
			kill(s.t, shim)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := start(t, lean)
			s.forced = true
			s.initialize()
			s.say(calls(1, named("frozen")+stubborn))
			busy(t, s.cmd.Process.Pid, "frozen")
			left := s.holdings()
			freeze(t, left.groups)
			test.die(s, s.shim())
			s.ended()
			next := start(t, lean, "--data-dir", s.data)
			next.data = s.data
			next.initialize()
			left.gone(t)
			if now := names(t, s.data); slices.Contains(now, left.groups[0]) || len(now) != 1 {
				t.Errorf("names in the data directory: %v, after %v", now, left.groups)
			}
		})
	}
}

// freeze freezes the sandboxes of servers of those names.
func freeze(t *testing.T, names []string) {
	t.Helper()
	frozen := 0
	for _, name := range names {
		for pattern, value := range map[string]string{
			"/sys/fs/cgroup/freezer/cloche/" + name + "/*/freezer.state": "FROZEN",
			"/sys/fs/cgroup/cloche/" + name + "/*/cgroup.freeze":         "1",
		} {
			files, err := filepath.Glob(pattern)
			if err != nil {
				panic(err) // the pattern is wrong
			}
			for _, file := range files {
				if filepath.Base(filepath.Dir(file)) == "shim" {
					continue
				}
				if err := os.WriteFile(file, []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
					t.Fatal(err)
				}
				frozen++
			}
		}
	}
	if frozen == 0 {
		t.Fatal("there is nothing to freeze")
	}
}
