package main_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The bars that hold whatever a caller does.
const (
	mayGrow = 32 << 20    // by so much the memory of the server, and of its shim, may grow
	prompt  = time.Second // within it another conversation is answered
)

// A watch looks at a server while a test is at it.
type watch struct {
	s         *server
	bystander string   // a conversation that the test has no part in
	programs  []memory // the server and its shim
}

// A memory is that of a process, in bytes.
type memory struct {
	name      string
	pid       int
	base      int64 // before the test
	peak, end int64 // the most since then, and what it is now
}

// watch begins to look at a server that is warm: what it makes once is there.
func (s *server) watch() *watch {
	s.t.Helper()
	w := &watch{s: s, bystander: s.ask(map[string]any{"code": "", "conversation": "new"}).Conversation}
	for range 20 {
		w.ask(s.t)
		s.works()
	}
	w.programs = []memory{{name: "cloche", pid: s.cmd.Process.Pid}, {name: "cloche-shim", pid: s.shim()}}
	for i := range w.programs {
		w.programs[i].base = w.programs[i].look(s.t, "VmRSS")
	}
	return w
}

// look reads a field of proc_pid_status(5).
func (m *memory) look(t *testing.T, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				t.Fatalf("%s of %s is %q", field, m.name, value)
			}
			return n << 10
		}
	}
	t.Fatalf("%s has no %s", m.name, field)
	return 0
}

// cpu returns how long the process has computed (proc_pid_stat(5)).
func (m *memory) cpu(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		t.Fatalf("the times of %s are %q", m.name, fields[11:13])
	}
	return time.Duration(user+system) * (time.Second / 100)
}

// ask makes the bystander's call and returns how long it took, and the answer.
func (w *watch) ask(t *testing.T) (time.Duration, string) {
	t.Helper()
	begin := time.Now()
	a, err := w.s.call(map[string]any{"code": "print(6*7)", "conversation": w.bystander})
	took := time.Since(begin)
	if err != nil || a.Stdout != "42\n" {
		t.Errorf("another conversation answered: %v %.500s", err, a.text)
	}
	return took, a.text
}

// during runs f. Meanwhile another conversation is answered again and again, and
// the server does not take more memory than it may.
func (w *watch) during(t *testing.T, f func()) {
	t.Helper()
	for _, m := range w.programs {
		// The peak begins anew (proc_pid_clear_refs(5)).
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.pid), []byte("5"), 0); err != nil {
			t.Fatalf("forget the peak of %s: %v", m.name, err)
		}
	}
	var longest time.Duration
	asked, slowest := 0, ""
	over := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		pause := time.NewTicker(5 * often)
		defer pause.Stop()
		for {
			if took, text := w.ask(t); took > longest {
				longest, slowest = took, text
			}
			asked++
			select {
			case <-over:
				return
			case <-pause.C:
			}
		}
	})
	begin, busy := time.Now(), w.programs[0].cpu(t)
	f()
	took := time.Since(begin)
	busy = w.programs[0].cpu(t) - busy
	close(over)
	asking.Wait()
	if longest > prompt {
		t.Errorf("another conversation was answered in %v, want %v at most:\n%s", longest, prompt, slowest)
	}
	said := fmt.Sprintf("%.1f s, of a processor %.1f s; another conversation: %d answers, the slowest after %.0f ms", took.Seconds(), busy.Seconds(), asked, longest.Seconds()*1e3)
	for _, m := range w.programs {
		m.peak, m.end = m.look(t, "VmHWM"), m.look(t, "VmRSS")
		said += fmt.Sprintf("; %s %.1f MB, %+.1f MB at its peak and %+.1f MB now", m.name, mb(m.base), mb(m.peak-m.base), mb(m.end-m.base))
		if m.peak-m.base > mayGrow {
			t.Errorf("%s grew from %.1f MB by %.1f MB, want %.1f MB at most", m.name, mb(m.base), mb(m.peak-m.base), mb(mayGrow))
		}
	}
	t.Log(said)
}

func mb(n int64) float64 { return float64(n) / 1e6 }
