package audit_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloche.dev/cloche/cmd/internal/audit"
	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/runtime/need"
)

// A setting is a sandbox with walls off, and the probes that are to find
// something there, by patterns of their names.
type setting struct {
	walls, probes []string
	// together: the probes run at the same time. They wait for much and take
	// little.
	together bool
}

var settings = []setting{
	{walls: []string{"filter"}, probes: []string{"A*", "C4_ipc"}},
	{walls: []string{"step", "capabilities", "proc", "dumpable", "environment", "places", "descriptors"}, probes: []string{"A*", "E1"}},
	{walls: []string{"filter", "capabilities", "user", "root", "pid", "net", "sys"}, probes: []string{"A*", "E2_runner"}},
	{walls: []string{"status"}, probes: []string{"E1", "E2*"}},
	{walls: []string{"limits", "places", "filter"}, probes: []string{"C1*", "C2_[^n]*", "C3_spin", "C4*"}},
	{walls: []string{"killing"}, probes: []string{"C6*", "C7*"}, together: true},
}

// judgedByAnswer are patterns of the probes that are judged by how the code
// ended, by what came afterwards, or by another conversation. Their failing tells
// as much as an OPEN of others, whose failing may be the setting's own doing.
var judgedByAnswer = []string{"C4_inotify", "C6*", "C7*", "E*"}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return ok && err == nil
	})
}

// outside is the name of no sandbox at all.
const outside = "outside"

// TestLoosened shows of each attempt that it can find something: in a sandbox
// that lacks a wall, or outside of any, or else for which reason it cannot here.
func TestLoosened(t *testing.T) {
	need.Root(t)
	need.Python(t)
	need.Cgroup(t)
	found := map[string][]string{} // by attempt, in which settings
	for _, set := range settings {
		name := strings.Join(set.walls, ",")
		t.Run(name, func(t *testing.T) {
			for _, a := range loosened(t, set) {
				found[a] = append(found[a], name)
			}
		})
	}
	said := map[string]string{} // by attempt, what came of it outside
	t.Run(outside, func(t *testing.T) {
		for _, p := range probes(t) {
			if p.Outside {
				for _, a := range onHost(t, p) {
					key := p.ID + " " + a.Name
					said[key] = a.Detail
					if a.Verdict == audit.Open {
						found[key] = append(found[key], outside)
					}
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	for _, p := range probes(t) {
		for _, name := range p.Attempts {
			account(t, p.ID+" "+name, found[p.ID+" "+name], said[p.ID+" "+name])
		}
	}
}

// TestTight: only the tag makes a shim that can be loosened. Without it what the
// linker is told is for a variable that there is not.
func TestTight(t *testing.T) {
	need.Root(t)
	need.Python(t)
	need.Cgroup(t)
	var walls []string
	for _, set := range settings {
		walls = append(walls, set.walls...)
	}
	s := serve(t, beside(t, need.Loosened(t, false, walls...)))
	r := s.audit(t, limits(true))
	for _, p := range probes(t) {
		if matches([]string{"A*", "C4*", "C7*", "E*"}, p.Name) {
			check(t, r.Run(t.Context(), p), true)
		}
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.GoFiles}} {{.CgoFiles}} {{.IgnoredGoFiles}}", "./runtime/container")
	list.Dir = build.Root(t)
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if text := string(out); strings.Count(text, "loosened.go") != 1 || !strings.Contains(text[strings.LastIndex(text, "["):], "loosened.go") {
		t.Errorf("files of a plain build, and those left out: %s, want loosened.go to be left out", text)
	}
}

// TestShortHost: where the host has no memory left, calls end that may hold what
// nobody counts, and others go on.
func TestShortHost(t *testing.T) {
	need.Root(t)
	need.Python(t)
	need.Cgroup(t)
	s := serve(t, beside(t, need.Loosened(t, true, "plenty")))
	const pairs = `
import socket, time
held = [socket.socketpair() for _ in range(%d)]
time.sleep(2)
`
	const unaccepted = `
import socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0unaccepted")
listener.listen(4096)
for _ in range(%d):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\0unaccepted")
        s.send(b"unread")
time.sleep(2)
`
	const forked = `
import os, signal, socket, time
held = [socket.socketpair() for _ in range(%d)]
for _ in range(8):
    if os.fork() == 0:
        signal.pause()
time.sleep(2)
`
	const ends, goesOn = "· out of memory (limit 128 MB", "· exit 0"
	conversation := "new"
	for _, tt := range []struct{ name, code, ends string }{
		{"100 pairs of sockets", fmt.Sprintf(pairs, 100), goesOn},
		{"128 pairs of sockets", fmt.Sprintf(pairs, 128), ends},
		{"50 connections that nobody accepts", fmt.Sprintf(unaccepted, 50), goesOn},
		{"300 connections that nobody accepts", fmt.Sprintf(unaccepted, 300), ends},
		{"50 pairs of sockets that 9 processes have", fmt.Sprintf(forked, 50), goesOn},
	} {
		a, err := s.Call(t.Context(), conversation, tt.code, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		conversation = a.Conversation
		if head, _, _ := strings.Cut(a.Text, "\n"); !strings.Contains(head, tt.ends) {
			t.Errorf("%s: %s, want %q", tt.name, head, tt.ends)
		}
	}
}

// account checks that an attempt found something, or had a reason not to.
func account(t *testing.T, key string, found []string, said string) {
	t.Helper()
	excuse, ok := excuses[key]
	holds := ok && (excuse.holds == nil || excuse.holds(said))
	switch {
	case len(found) > 0 && holds:
		t.Errorf("%s: found something in %s, although %s", key, found, excuse.reason)
	case len(found) == 0 && !holds:
		t.Errorf("%s: nothing makes it find something; %s; outside: %q", key, excuse.reason, said)
	case holds:
		t.Logf("%s: finds nothing here: %s", key, excuse.reason)
	default:
		t.Logf("%s: finds something in %s", key, strings.Join(found, "; "))
	}
}

// loosened runs the probes of a setting and returns the attempts that found
// something.
func loosened(t *testing.T, set setting) (found []string) {
	t.Helper()
	s := serve(t, beside(t, need.Loosened(t, true, set.walls...)))
	l := limits(true)
	l.CPUs /= 5 // also beside others' work it has more than that
	chosen := slices.DeleteFunc(probes(t), func(p audit.Probe) bool { return !matches(set.probes, p.Name) })
	findings := make([]audit.Finding, len(chosen))
	if set.together {
		var work sync.WaitGroup
		for i, p := range chosen {
			r := s.audit(t, l)
			work.Go(func() { findings[i] = r.Run(t.Context(), p) })
		}
		work.Wait()
	} else {
		r := s.audit(t, l)
		for i, p := range chosen {
			findings[i] = r.Run(t.Context(), p)
		}
	}
	for _, f := range findings {
		show(t, f)
		for _, a := range f.Attempts {
			if a.Verdict == audit.Open || f.Verdict == audit.Failed && matches(judgedByAnswer, f.Probe.Name) {
				found = append(found, f.Probe.ID+" "+a.Name)
			}
		}
	}
	return found
}

// beside puts cloche beside a shim, where it looks first, and returns its path.
func beside(t *testing.T, dir string) string {
	t.Helper()
	cloche := filepath.Join(dir, "cloche")
	if err := os.Link(build.Programs(t), cloche); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return cloche
}

// onHost runs a probe as this user, outside of any sandbox.
func onHost(t *testing.T, p audit.Probe) []audit.Attempt {
	t.Helper()
	code, err := p.Source(limits(true))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-I", "-")
	cmd.Stdin = strings.NewReader(code)
	cmd.Dir = t.TempDir()
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v", p.Name, err)
	}
	said, problems := audit.Reports(p, string(out))
	if len(problems) > 0 || len(said) != len(p.Attempts) {
		t.Errorf("%s reported %d of %d attempts; %v", p.Name, len(said), len(p.Attempts), problems)
	}
	var all []audit.Attempt
	text := p.Name
	for _, a := range said {
		all = append(all, a)
		text += fmt.Sprintf("\n%s %s: %s", a.Verdict, a.Name, a.Detail)
	}
	t.Log(text)
	return all
}
