package main_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/need"
)

// Bounds of what a server promises that has more asked of it than it can do.
const (
	neverPast = 10 * time.Second // no call is answered later, whatever the answer
	atLeast   = 100              // so many of a thousand are carried out
)

// A crowd is what came of calls that were made at once.
type crowd struct {
	served, busy int
	slowest      time.Duration
	median       time.Duration // of those that were served
	p99          time.Duration // of those that were served
	said         string        // to one that was told to come back
	retry        float64
}

// crowd makes so many calls at once. One that is not carried out must be told that
// the server is busy, and when to come back.
func (s *server) crowd(n int, args func(i int) map[string]any) (c crowd) {
	s.t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			begin := time.Now()
			a, err := s.call(args(i))
			d := time.Since(begin)
			mu.Lock()
			defer mu.Unlock()
			c.slowest = max(c.slowest, d)
			switch {
			case err == nil && !a.isError && a.Stdout == "42\n":
				c.served++
				took = append(took, d)
			case err == nil && a.isError && a.Error.Kind == "busy" && a.Error.RetryAfter >= 1 && a.Error.RetryAfter <= 60 &&
				strings.Contains(a.text, fmt.Sprintf("call again in about %g s", a.Error.RetryAfter)):
				c.busy++
				c.said, c.retry = a.text, a.Error.RetryAfter
			default:
				s.t.Errorf("call %d: %v %.300s", i, err, a.text)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	if len(took) > 0 {
		c.median, c.p99 = took[len(took)/2], took[(len(took)*99+99)/100-1]
	}
	s.t.Logf("%d calls at once: %d served, median %v, p99 %v; %d told to come back (%s); the slowest answer after %v",
		n, c.served, c.median.Round(time.Millisecond), c.p99.Round(time.Millisecond), c.busy, c.said, c.slowest.Round(time.Millisecond))
	return c
}

func fresh(int) map[string]any { return map[string]any{"code": "6*7", "conversation": "new"} }

// TestNewConversationsAtOnce: of a hundred all are served, or of fifty where time
// is short; of a thousand a good part, and the others are told to come back, soon;
// then all is as before.
func TestNewConversationsAtOnce(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean, "")
		w := s.watch()
		for _, n := range []int{times(50, 100), 1000} {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				if n > 100 {
					need.Long(t)
				}
				s := s.on(t)
				ask := func() {
					c := s.crowd(n, fresh)
					if c.slowest > neverPast {
						t.Errorf("the slowest answer came after %v, want %v at most", c.slowest, neverPast)
					}
					if want := min(n, atLeast); c.served < want {
						t.Errorf("%d were served, want %d", c.served, want)
					}
					s.works()
				}
				if n == 1000 {
					ask() // another call would be one too many for a client
				} else {
					w.during(t, ask)
				}
			})
		}
	})
}

// TestConversationsKeepTheirSandboxes: fifty conversations that call at once, and
// again, have their sandboxes still.
func TestConversationsKeepTheirSandboxes(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		n := times(20, 50)
		s := serve(t, lean, "")
		var ids, boxes []string
		for range n {
			a := s.ask(map[string]any{"code": which, "conversation": "new"})
			ids, boxes = append(ids, a.Conversation), append(boxes, a.Stdout)
		}
		for range 3 {
			s.crowd(n, func(i int) map[string]any { return map[string]any{"code": "6*7", "conversation": ids[i]} })
		}
		for i, id := range ids {
			if a := s.ask(map[string]any{"code": which, "conversation": id}); a.Stdout != boxes[i] {
				t.Errorf("conversation %d has the sandbox %swhere it had %s", i, a.Stdout, boxes[i])
			}
		}
	})
}

// TestBusyServer: where one call may run at a time, and one runs, others are told
// to come back, and are served when it is over.
func TestBusyServer(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	for name, text := range map[string]string{
		"memory":     "memory = \"1900 MB\"\n",
		"processors": "processors = 1\n",
		"sandboxes":  "max = 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, lean+"[pool]\nwarm = 0\n"+text, "")
			long := s.begin(map[string]any{"code": named("long") + "import time\ntime.sleep(14)\nprint(42)", "conversation": "new"})
			busy(t, s.cmd.Process.Pid, "long")
			c := s.crowd(3, fresh)
			if c.busy != 3 || c.slowest > neverPast {
				t.Errorf("beside one that runs %d were told to come back, after %v at most, want all 3, before %v", c.busy, c.slowest, neverPast)
			}
			// What was said is so: who comes back then, or waits from then on, is served.
			end := time.Now().Add(soon)
			for s.crowd(1, fresh).served == 0 {
				if time.Now().After(end) {
					t.Fatal("nobody is served")
				}
			}
			if o := (<-long).whole(t); o.Stdout != "42\n" {
				t.Errorf("the one that ran answered:\n%s", o.text)
			}
		})
	}
}

// TestTooLarge: a call that asks for more than there is for all is refused at once,
// with what to do.
func TestTooLarge(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	s := serve(t, "[sandbox]\npreload = []\nmemory = \"15 TB\"\n[pool]\nwarm = 0\n", "")
	begin := time.Now()
	a, err := s.call(map[string]any{"code": "1"})
	if took := time.Since(begin); err != nil || !a.isError || a.Error.Kind != "unavailable" || !strings.Contains(a.text, "raise pool.memory") || took > slow {
		t.Errorf("answered after %v: %v %s", took, err, a.text)
	}
	s.configure("[sandbox]\npreload = []\n[pool]\nwarm = 0\n")
	await(t, "a call under another policy", func() bool {
		a, err := s.call(map[string]any{"code": "6*7"})
		return err == nil && a.Stdout == "42\n"
	})
}
