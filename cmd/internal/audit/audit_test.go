package audit_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/cmd/internal/audit"
	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// flat is how much memory the server may take more for whatever a call does.
const flat = 32 << 20

// TestAudit runs all probes through the real programs.
func TestAudit(t *testing.T) {
	cloche := build.Programs(t) // for both users, whichever is chosen
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		root := os.Getuid() == 0
		if root {
			need.Cgroup(t)
		}
		s := serve(t, cloche)
		r := s.audit(t, limits(root))
		for _, p := range probes(t) {
			t.Run(p.Name, func(t *testing.T) {
				before, _ := s.memory(t)
				check(t, r.Run(t.Context(), p), root)
				if _, most := s.memory(t); most > before+flat {
					t.Errorf("the server took %d MB more", (most-before)>>20)
				}
				s.quiet(t)
			})
		}
	})
}

// check checks a finding of the real sandbox.
func check(t *testing.T, f audit.Finding, root bool) {
	t.Helper()
	show(t, f)
	for _, a := range f.Attempts {
		if a.Verdict != audit.Blocked && (a.Verdict != audit.Unpromised || !unpromised(f.Probe.Name, root)) {
			t.Errorf("%s %s: %s: %s", f.Probe.ID, a.Verdict, a.Name, a.Detail)
		}
	}
	if f.Problem != "" {
		t.Errorf("%s: %s", f.Probe.Name, f.Problem)
	}
}

// unpromised says whether README names what a probe takes among what is not
// limited: by nobody, or without control groups.
func unpromised(name string, root bool) bool {
	switch name {
	case "C2_netlink", "C2_network":
		return true
	case "C2_sockets", "C3_spin":
		return !root
	}
	return false
}

// show logs a finding.
func show(t *testing.T, f audit.Finding) {
	t.Helper()
	text := fmt.Sprintf("%s (%s): %s in %v", f.Probe.Name, f.Probe.Title, f.Verdict, f.Took.Round(time.Millisecond))
	if f.Probe.Load {
		text += fmt.Sprintf("; the slowest of %d answers in another conversation took %v", f.Answers, f.Worst.Round(time.Millisecond))
	}
	if f.Retried > 0 {
		text += fmt.Sprintf(", in an earlier run %v", f.Retried.Round(time.Millisecond))
	}
	for _, a := range f.Attempts {
		text += fmt.Sprintf("\n%s %s: %s", a.Verdict, a.Name, a.Detail)
	}
	if f.Problem != "" {
		text += "\n" + f.Problem
	}
	t.Log(text)
}

// quiet checks that nothing runs below the server but what waits for calls.
func (s *server) quiet(t *testing.T) {
	t.Helper()
	sandboxtest.Eventually(t, func() error {
		if strays := s.strays(); len(strays) > 0 {
			return fmt.Errorf("processes of the server:\n%s", strings.Join(strays, "\n"))
		}
		return nil
	})
}
