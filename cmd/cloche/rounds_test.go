package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/need"
)

// ends is how soon nothing of a server runs that was killed.
const ends = time.Second

// stubborn is code that does not want to end, and has others write meanwhile.
const stubborn = `
import os, signal, time
for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(s, signal.SIG_IGN)
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            with open(f'/work/{i}', 'w') as f:
                f.write('x' * 100_000)
            time.sleep(0.002)
while True:
    os.write(1, b'x\n')
    time.sleep(0.002)
`

// TestDeathAtAnyMoment kills a server, or its shim, at a moment that nobody
// chose, while calls of several conversations begin and end. A second later
// nothing of it runs and no mount is left; the next server of the same data
// directory leaves nothing else of it. Another one, of the same directory,
// keeps what it has all along.
func TestDeathAtAnyMoment(t *testing.T) {
	rounds := times(10, 200)
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWitness(t)
		var slowest time.Duration
		most := 0
		for n := range rounds {
			ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
				took, had := w.round(t, random)
				slowest, most = max(slowest, took), max(most, had)
				w.unharmed(t)
			})
			if !ok {
				return // the rounds to come are not to hide this one's traces
			}
		}
		t.Logf("%d rounds, with up to %d processes; at most %v later none ran any more", rounds, most, slowest.Round(time.Millisecond))
		if most < 8 {
			t.Errorf("no server had more than %d processes at its death, so nothing was tried", most)
		}
	})
}

// A witness is a server whose data directory it shares with those that die.
type witness struct {
	*server
	name   string // its name there
	kept   []process
	groups []string
}

// newWitness starts a server with a call that lasts.
func newWitness(t *testing.T) *witness {
	t.Helper()
	s := serve(t, lean+abrupt, "")
	s.works()
	over := make(chan struct{})
	go func() {
		defer close(over)
		// It ends with this test, in some way.
		_, _ = s.client.Call(t.Context(), "code_interpreter",
			map[string]any{"conversation": "new", "timeout_seconds": 3600, "code": named("witness") + stubborn})
	}()
	t.Cleanup(func() { <-over }) // before the server's end
	busy(t, s.cmd.Process.Pid, "witness")
	w := &witness{server: s}
	await(t, "the processes of the call that lasts", func() bool {
		w.kept = slices.DeleteFunc(descendants(s.cmd.Process.Pid), func(p process) bool {
			return p.name != "witness" && p.parent != s.cmd.Process.Pid
		})
		return len(w.kept) == 5 // the shim, the code and its children
	})
	names := s.holdings().groups
	if len(names) != 1 {
		t.Fatalf("the server has the names %v", names)
	}
	w.name, w.groups = names[0], groups(names[0])
	return w
}

// unharmed checks that the witness has what it had, and answers.
func (w *witness) unharmed(t *testing.T) {
	t.Helper()
	for _, p := range w.kept {
		if q, ok := look(p.pid); !ok || q.start != p.start {
			t.Errorf("process %v of another server was ended", p)
		}
	}
	if now := groups(w.name); !slices.Equal(now, w.groups) {
		t.Errorf("the control groups of another server are %v, were %v", now, w.groups)
	}
	w.on(t).works()
}

// round starts a server beside the witness and kills it or its shim, and the
// other one later. It returns how long it took until nothing of it ran, and how
// many processes it had.
func (w *witness) round(t *testing.T, random *rand.Rand) (took time.Duration, had int) {
	before := mounts()
	s := start(t, lean+abrupt, "--data-dir", w.data)
	s.data, s.forced = w.data, true
	s.traffic()
	moment, early, shim := time.Duration(random.Int64N(int64(500*time.Millisecond))), random.IntN(3) == 0, random.IntN(2) == 0
	if !early {
		busy(t, s.cmd.Process.Pid, "stubborn")
	}
	<-time.After(moment)
	had = len(descendants(s.cmd.Process.Pid))
	if victim, ok := child(s.cmd.Process.Pid); shim && ok {
		kill(t, victim.pid)
		at := ticks(t)
		took = w.gone(t, fmt.Sprintf("shim killed after %v, early: %v", moment, early), before, func(p process) bool {
			return p.pid != s.cmd.Process.Pid && p.ticks() < at
		})
		s.answers("after its shim's death", 0)
	}
	kill(t, s.cmd.Process.Pid)
	s.ended()
	took = max(took, w.gone(t, fmt.Sprintf("server killed after %v, early: %v", moment, early), before, func(process) bool { return true }))
	w.cleared(t)
	return took, had
}

// cleared starts a server, and checks that it has taken away what the dead have
// left in the data directory and of control groups.
func (w *witness) cleared(t *testing.T) {
	t.Helper()
	dead := slices.DeleteFunc(names(t, w.data), func(name string) bool { return name == w.name })
	next := start(t, lean+abrupt, "--data-dir", w.data)
	next.data = w.data
	next.initialize()
	if left := names(t, w.data); len(left) != 2 || !slices.Contains(left, w.name) {
		t.Errorf("after a start the data directory has the names %v, want %s and another; the dead were %v", left, w.name, dead)
	}
	for _, name := range dead {
		if left := groups(name); len(left) > 0 {
			t.Errorf("after a start there are the control groups %v", left)
		}
	}
}

// traffic has the server carry out calls of several conversations, whose answers
// nobody reads.
func (s *server) traffic() {
	s.t.Helper()
	_ = s.try(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"lines","version":"1"}}}`)
	_ = s.try(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for n := range 5 {
		for _, name := range []string{"a", "b", "c"} {
			for _, code := range []string{"pass", named("stubborn") + stubborn, "print(1)"} {
				_ = s.try(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s%d","method":"tools/call","params":{"name":"code_interpreter",`+
					`"arguments":{"code":%q,"timeout_seconds":0.2},"_meta":{"cloche/conversation":%q}}}`, name, n, code, name))
			}
		}
	}
}

// try sends the server a line, if it lives.
func (s *server) try(line string) error {
	_, err := fmt.Fprintln(s.in, line)
	return err
}

// answers checks that the server carries out a call, before which so many may be
// lost with sandboxes that were warm.
func (s *server) answers(when string, lost int) {
	s.t.Helper()
	for n := range lost + 1 {
		id := fmt.Sprintf(`"id":"last%d"`, n)
		if err := s.try(`{"jsonrpc":"2.0",` + id + `,"method":"tools/call","params":{"name":"code_interpreter",` +
			`"arguments":{"code":"6*7"},"_meta":{"cloche/conversation":"last"}}}`); err != nil {
			s.t.Fatalf("%s: %v; the log:\n%s", when, err, s.log)
		}
		line := s.hear()
		for line != "" && !strings.Contains(line, id) {
			line = s.hear()
		}
		switch {
		case strings.Contains(line, `\n42\n`):
			return
		case n == lost || !strings.Contains(line, "the next call gets a new one"):
			s.t.Fatalf("%s a call answered %q; the log:\n%s", when, line, s.log)
		}
	}
}

// gone waits until no process of this test that is doomed runs, but the
// witness's, and the mounts are as before; at most for ends.
func (w *witness) gone(t *testing.T, what string, before []string, doomed func(process) bool) time.Duration {
	t.Helper()
	begin, late := time.Now(), ""
	for {
		others := descendants(w.cmd.Process.Pid)
		left := slices.DeleteFunc(descendants(os.Getpid()), func(p process) bool {
			return p.pid == w.cmd.Process.Pid || slices.ContainsFunc(others, func(q process) bool { return p.pid == q.pid }) ||
				p.name == "sh" && p.parent == os.Getpid() || !doomed(p)
		})
		fresh := slices.DeleteFunc(mounts(), func(m string) bool { return slices.Contains(before, m) })
		took := time.Since(begin)
		if len(left)+len(fresh) == 0 {
			if late != "" {
				t.Errorf("%s; they are gone after %v", late, took)
			}
			return took
		}
		if took > ends && late == "" {
			late = fmt.Sprintf("%s: %v later there are %v and the mounts %v", what, took, left, fresh)
			for _, p := range left {
				late += "\n" + doing(p)
			}
		}
		if took > soon {
			t.Fatal(late + ", and stay")
		}
		<-time.After(time.Millisecond)
	}
}

// doing tells what a process is about, for who wonders why it lives.
func doing(p process) string {
	text := p.String()
	for _, file := range []string{"wchan", "cgroup", "status"} {
		is, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, file))
		for line := range strings.Lines(string(is)) {
			if file == "wchan" || strings.Contains(line, "freezer") || strings.HasPrefix(line, "State:") || strings.HasPrefix(line, "SigPnd:") || strings.HasPrefix(line, "ShdPnd:") || strings.HasPrefix(line, "Threads:") {
				text += " " + strings.TrimSpace(line)
			}
		}
	}
	return text
}

// child returns the first child of a process.
func child(pid int) (process, bool) {
	for _, p := range descendants(pid) {
		if p.parent == pid {
			return p, true
		}
	}
	return process{}, false
}

// ticks is the time of now as that of a process's start is told.
func ticks(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano() / int64(10*time.Millisecond)
}

// names lists the servers that a data directory has a trace of.
func names(t *testing.T, data string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(data)
	if err != nil || len(entries) != 1 || entries[0].Name() != "run" {
		t.Errorf("the data directory has %v, %v, want the folder run alone", entries, err)
	}
	if entries, err = os.ReadDir(filepath.Join(data, "run")); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".lock")
		if !ok {
			t.Errorf("the data directory has run/%s", e.Name())
		}
		all = append(all, name)
	}
	return all
}

// groups lists the control groups of a server.
func groups(name string) (found []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/cloche/", "/sys/fs/cgroup/*/cloche/"} {
		dirs, err := filepath.Glob(pattern + name)
		if err != nil {
			panic(err) // the pattern is wrong
		}
		found = append(found, dirs...)
	}
	return found
}
