package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// timeouts is a policy whose calls have that much time.
func timeouts(limit string) string { return lean + "[calls]\ntimeout = \"" + limit + "\"\n" }

// follows waits until calls of s have that many seconds.
func (s *server) follows(seconds float64) {
	s.t.Helper()
	await(s.t, "the new policy", func() bool { return s.status().Limits.TimeoutSeconds == seconds })
}

// TestReload changes the configuration of a running server. New calls follow it;
// a call that runs keeps the policy it began with.
func TestReload(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		t.Run("change", func(t *testing.T) {
			t.Parallel()
			s := serve(t, timeouts("20s"), "")
			s.works()
			running := s.begin(map[string]any{"conversation": "new", "code": named("running") + "import time\ntime.sleep(0.7)\nprint('whole')"})
			busy(t, s.cmd.Process.Pid, "running")
			s.configure(timeouts("200ms"))
			s.follows(0.2)
			if a := s.run("while True:\n    pass"); !strings.Contains(a.text, "ran past its 0.2 s limit") {
				t.Errorf("a call under the new policy answered:\n%s", a.text)
			}
			if a := (<-running).whole(t); a.Stdout != "whole\n" {
				t.Errorf("the call that began under the old policy answered:\n%s", a.text)
			}
			s.works()
		})
		t.Run("new sandboxes", func(t *testing.T) {
			t.Parallel()
			s := serve(t, lean, "")
			const limit = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[0])"
			if a := s.run(limit); a.Stdout != "1024\n" {
				t.Errorf("processes: %s", a.text)
			}
			s.configure(lean + "pids = 99\n")
			await(t, "the new policy", func() bool { return s.status().Limits.PIDs == 99 })
			if a := s.run(limit); a.Stdout != "99\n" {
				t.Errorf("processes under the new policy: %s", a.text)
			}
			s.works()
		})
		t.Run("SIGHUP", reloadAtSignal)
		t.Run("mistakes", reloadMistakes)
	})
}

// reloadAtSignal changes the file behind a symbolic link, which is not watched.
func reloadAtSignal(t *testing.T) {
	t.Parallel()
	s := serve(t, timeouts("20s"), "")
	target := filepath.Join(t.TempDir(), "elsewhere.toml")
	write := func(text string) {
		if err := os.WriteFile(target, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(timeouts("21s"))
	if err := os.Remove(s.config); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, s.config); err != nil {
		t.Fatal(err)
	}
	s.follows(21)
	write(timeouts("22s"))
	s.works()
	if got := s.status().Limits.TimeoutSeconds; got != 21 {
		t.Errorf("calls have %v s though nothing said that the file changed", got)
	}
	s.signal(syscall.SIGHUP)
	s.follows(22)
	// The file was missing for a moment, which is in the log.
	s.warns = true
}

// reloadMistakes puts a bad file, and none, in the place of a good one.
func reloadMistakes(t *testing.T) {
	t.Parallel()
	s := serve(t, timeouts("20s"), "")
	s.warns = true
	bad := func(what string) {
		t.Helper()
		await(t, "a notice that "+what, func() bool {
			st := s.status()
			return len(st.Notices) == 1 && strings.Contains(st.Notices[0], "the configuration file has mistakes, so an older policy holds")
		})
		if got := s.status().Limits.TimeoutSeconds; got != 20 {
			t.Errorf("%s: calls have %v s, want those of the older policy", what, got)
		}
		s.works()
	}
	s.configure("[calls]\ntimout = \"5s\"\n")
	bad("a key is misspelt")
	if log := s.log.String(); !strings.Contains(log, "config.toml:2:1: unknown key") || !strings.Contains(log, "the older one is in force") {
		t.Errorf("the log does not say where the mistake is:\n%s", log)
	}
	s.configure(timeouts("20s"))
	await(t, "no notice once it is mended", func() bool { return len(s.status().Notices) == 0 })
	if err := os.Chmod(s.config, 0o666); err != nil {
		t.Fatal(err)
	}
	bad("others may write it")
	s.configure(timeouts("21s"))
	s.follows(21)
	if err := os.Remove(s.config); err != nil {
		t.Fatal(err)
	}
	await(t, "a notice that it is gone", func() bool { return len(s.status().Notices) == 1 })
	s.configure(timeouts("22s"))
	s.follows(22)
	if n := s.status().Notices; len(n) > 0 {
		t.Errorf("notices about a good file: %q", n)
	}
}
