package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"cloche.dev/cloche/policy/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLimits has each limit at its end and one past it.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		capacity Capacity
		most     int
	}{
		{"none", Capacity{}, 20},
		{"memory", Capacity{Memory: 500 * mb, CPUs: 100, Sandboxes: 100}, 5},
		{"memory but a byte", Capacity{Memory: 500*mb - 1}, 4},
		{"processors", Capacity{Memory: 1 << 40, CPUs: 3, Sandboxes: 100}, 3},
		{"processors but a bit", Capacity{CPUs: 2.99}, 2},
		{"sandboxes", Capacity{Memory: 1 << 40, CPUs: 100, Sandboxes: 2}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at(t, tt.capacity, func(t *testing.T, d *desk) {
				for n := range 20 {
					d.come(fmt.Sprintf("a%d", n))
				}
				if n := len(d.entered); n != tt.most {
					t.Errorf("%d of 20 came in, want %d", n, tt.most)
				}
				if tt.most == 20 {
					return
				}
				d.leave("a0")
				if n := len(d.entered); n != tt.most+1 || d.entered[tt.most] != fmt.Sprintf("a%d", tt.most) {
					t.Errorf("when one had left, there came in %v", d.entered)
				}
			})
		})
	}
}

func TestPrincipalsTakeTurns(t *testing.T) {
	at(t, Capacity{CPUs: 1}, func(_ *testing.T, d *desk) {
		d.come("a0", "a1", "a2", "a3", "b1", "a4", "b2", "c1")
		for _, c := range []string{"a0", "a1", "b1", "c1", "a2", "b2", "a3"} {
			d.leave(c)
		}
		d.want("in turns", "a0", "a1", "b1", "c1", "a2", "b2", "a3", "a4")
	})
}

// TestConversationsTakeTurns: one that asks for much does not keep another from
// its turn.
func TestConversationsTakeTurns(t *testing.T) {
	at(t, Capacity{CPUs: 1}, func(t *testing.T, d *desk) {
		g := d.gate
		var order []string
		hold := make(chan struct{})
		enter := func(conversation, name string) {
			d.work.Go(func() {
				s, err := g.Enter(t.Context(), Request{"a", conversation, 0, 1}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name) // one at a time
				<-hold
				s.Leave()
			})
			synctest.Wait()
		}
		for _, c := range []string{"x1", "x2", "x3", "x4", "y1", "y2", "z1"} {
			enter(c[:1], c)
		}
		close(hold)
		d.work.Wait()
		if got := strings.Join(order, " "); got != "x1 x2 y1 z1 x3 y2 x4" {
			t.Errorf("came in %s", got)
		}
	})
}

// TestShortCallsBesideStarts: a call whose conversation has a sandbox does not
// wait for all those that start one, nor they for all such calls.
func TestShortCallsBesideStarts(t *testing.T) {
	at(t, Capacity{CPUs: 2}, func(t *testing.T, d *desk) {
		d.come("ak1", "ak2")
		for _, c := range []string{"ak1", "ak2"} {
			if !d.rest(c) {
				t.Fatalf("the sandbox of %s has to end", c)
			}
		}
		kept := map[string]*Seat{"ak1": d.seats["ak1"], "ak2": d.seats["ak2"]}
		d.entered = nil
		d.come("a1", "a2", "a3", "a4", "a5")
		for c, s := range kept {
			delete(d.seats, c)
			_ = s
		}
		d.enter(t.Context(), "ak1", 100*mb, 1, kept["ak1"])
		d.enter(t.Context(), "ak2", 100*mb, 1, kept["ak2"])
		for _, c := range []string{"a1", "a2", "a3", "ak1", "a4"} {
			d.leave(c)
		}
		d.want("in turns", "a1", "a2", "a3", "ak1", "a4", "ak2", "a5")
	})
}

func TestCancelGivesUpThePlace(t *testing.T) {
	at(t, Capacity{CPUs: 1}, func(t *testing.T, d *desk) {
		unwanted := errors.New("the client wants it no more")
		ctx, cancel := context.WithCancelCause(t.Context())
		d.come("a0")
		d.enter(ctx, "a1", 0, 1, nil)
		d.come("a2")
		d.settle(func() { cancel(unwanted) })
		if !errors.Is(d.errors["a1"], unwanted) || d.gate.line.count != 1 {
			t.Errorf("the cancelled call: %v, %d wait, want its cause, and one", d.errors["a1"], d.gate.line.count)
		}
		d.leave("a0")
		d.want("without the cancelled", "a0", "a2")
		d.enter(ctx, "a3", 0, 1, nil)
		if !errors.Is(d.errors["a3"], unwanted) {
			t.Errorf("a call that was cancelled before: %v", d.errors["a3"])
		}
		// One whose sandbox rests has it still.
		d.rest("a2")
		d.come("a4")
		ctx, cancel = context.WithCancelCause(t.Context())
		d.enter(ctx, "a2", 0, 1, d.seats["a2"])
		d.settle(func() { cancel(unwanted) })
		if g := d.gate; g.resting != 1 || g.boxes != 2 || g.running.count != 1 {
			t.Errorf("%d rest, %d sandboxes, %d run, want 1, 2, 1", g.resting, g.boxes, g.running.count)
		}
	})
}

func TestBusy(t *testing.T) {
	at(t, Capacity{Memory: 300 * mb, CPUs: 2, Sandboxes: 10}, func(t *testing.T, d *desk) {
		d.come("a0", "a1", "a2", "b3")
		d.pause(patience - 1)
		if len(d.errors) > 0 {
			t.Errorf("before their time is over: %v", d.errors)
		}
		d.pause(2)
		for _, c := range []string{"a2", "b3"} {
			f, ok := errors.AsType[*fault.Error](d.errors[c])
			if !ok || f.Kind() != fault.Busy || d.took[c] != patience {
				t.Errorf("%s was told %v after %v, want busy after %v", c, d.errors[c], d.took[c], patience)
				continue
			}
			// Two run since 8 s, so that one ends each 4 s, if they end now.
			if f.RetryAfter() < 8*time.Second || f.RetryAfter() > 12*time.Second ||
				!strings.HasPrefix(f.Text(), "this server is at its capacity (2 calls, 200 MB of memory); ") ||
				!strings.HasSuffix(f.Text(), fmt.Sprintf("; call again in about %d s", int(f.RetryAfter().Seconds()))) {
				t.Errorf("%s was told %q, retry after %v", c, f.Text(), f.RetryAfter())
			}
		}
		d.change(Capacity{Memory: 300 * mb, CPUs: 100, Sandboxes: 2})
		d.come("a4")
		d.pause(patience)
		d.change(Capacity{CPUs: 1})
		if err := d.errors["a4"]; err == nil || !strings.HasPrefix(err.Error(), "all 2 sandboxes of this server are in use; 1 call waits; ") {
			t.Errorf("where there are sandboxes for no more: %v", err)
		}
	})
}

// TestEstimate: the time to retry after follows how long calls take, and how many
// wait, and is neither nothing nor too long.
func TestEstimate(t *testing.T) {
	at(t, Capacity{CPUs: 2}, func(t *testing.T, d *desk) {
		g := d.gate
		if got := g.estimate(0); got != time.Second {
			t.Errorf("where nothing has run, nothing waits: %v", got)
		}
		for n := range 50 {
			c := fmt.Sprintf("a%d", n)
			d.come(c)
			d.pause(3 * time.Second)
			d.leave(c)
		}
		d.come("b0", "b1")
		for _, tt := range []struct {
			waiting int
			want    time.Duration
		}{{0, 2 * time.Second}, {1, 3 * time.Second}, {9, 15 * time.Second}, {38, 59 * time.Second}, {39, time.Minute}, {500, time.Minute}} {
			if got := g.estimate(tt.waiting); got != tt.want {
				t.Errorf("behind %d calls of 3 s, two at a time: %v, want %v", tt.waiting, got, tt.want)
			}
		}
		d.pause(10 * time.Second)
		if got := g.estimate(0); got != 5*time.Second {
			t.Errorf("where two run since 10 s: %v, want 5 s", got)
		}
		d.pause(time.Hour)
		if got := g.estimate(500); got != time.Minute {
			t.Errorf("where two run since an hour: %v", got)
		}
	})
}

func TestHugeRequest(t *testing.T) {
	at(t, Capacity{Memory: 500 * mb, CPUs: 2}, func(t *testing.T, d *desk) {
		d.enter(t.Context(), "a0", 500*mb+1, 1, nil)
		err := d.errors["a0"]
		if fault.KindOf(err) != fault.Unavailable || d.took["a0"] != 0 || !strings.Contains(err.Error(), "raise pool.memory") {
			t.Errorf("past all there is: %v after %v, want it refused at once, with what to do", err, d.took["a0"])
		}
		d.enter(t.Context(), "a1", 500*mb, 64, nil)
		d.want("all there is, and more processors", "a1")
		d.leave("a1")
		// One may run alone that is larger than what others share.
		d.change(Capacity{Memory: 500 * mb, Largest: 900 * mb, CPUs: 2})
		d.enter(t.Context(), "a2", 900*mb, 1, nil)
		d.come("a3")
		d.want("the largest, alone", "a1", "a2")
		d.leave("a2")
		d.want("then the next", "a1", "a2", "a3")
		d.enter(t.Context(), "a4", 900*mb+1, 1, nil)
		if fault.KindOf(d.errors["a4"]) != fault.Unavailable {
			t.Errorf("past the largest: %v", d.errors["a4"])
		}
	})
}

// TestLargeIsNotStarved: small calls pass a large one for a while, then it has its
// turn though they come and go without end.
func TestLargeIsNotStarved(t *testing.T) {
	at(t, Capacity{Memory: 1000 * mb}, func(t *testing.T, d *desk) {
		for n := range 10 {
			d.come(fmt.Sprintf("a%d", n))
		}
		d.enter(t.Context(), "big", 800*mb, 1, nil)
		begin, passed := time.Now(), 0
		for n := 0; d.seats["big"] == nil && d.errors["big"] == nil; n++ {
			d.come(fmt.Sprintf("c%d", n))
			d.pause(time.Second / 2)
			oldest := ""
			for _, c := range d.entered {
				if d.seats[c] != nil {
					oldest = c
					break
				}
			}
			if oldest != "" {
				d.leave(oldest)
			}
			if d.seats[fmt.Sprintf("c%d", n)] != nil {
				passed++
			}
		}
		if d.errors["big"] != nil || time.Since(begin) < patience/2 || passed < 4 {
			t.Errorf("after %v the large call was told %v, passed by %d", time.Since(begin), d.errors["big"], passed)
		}
	})
}

func TestCapacityChangesWhileCallsWait(t *testing.T) {
	at(t, Capacity{CPUs: 1, Memory: 1 << 40}, func(_ *testing.T, d *desk) {
		d.come("a0", "a1", "a2", "a3")
		d.change(Capacity{CPUs: 3, Memory: 1 << 40})
		d.pause(2 * every)     // nothing else happens
		slices.Sort(d.entered) // two came in at once
		d.want("more", "a0", "a1", "a2")
		d.change(Capacity{CPUs: 1, Memory: 1 << 40})
		d.leave("a0")
		d.leave("a1")
		d.want("less", "a0", "a1", "a2")
		d.leave("a2")
		d.want("the last", "a0", "a1", "a2", "a3")
	})
}

// TestLineIsBounded: past the bound who has most in the line gives way.
func TestLineIsBounded(t *testing.T) {
	at(t, Capacity{CPUs: 1}, func(t *testing.T, d *desk) {
		for n := range maxWaiting + 1 {
			d.come(fmt.Sprintf("a%d", n))
		}
		if len(d.errors) > 0 || d.gate.line.count != maxWaiting {
			t.Fatalf("at the bound %d wait, %d were refused", d.gate.line.count, len(d.errors))
		}
		d.come("a-more")
		if fault.KindOf(d.errors["a-more"]) != fault.Busy || d.took["a-more"] != 0 {
			t.Errorf("past the bound: %v, want busy at once", d.errors["a-more"])
		}
		d.come("b1")
		last := fmt.Sprintf("a%d", maxWaiting)
		if d.errors["b1"] != nil || fault.KindOf(d.errors[last]) != fault.Busy || len(d.errors) != 2 || d.gate.line.count != maxWaiting {
			t.Errorf("another principal past the bound: %v; the last of the first: %v; %d wait", d.errors["b1"], d.errors[last], d.gate.line.count)
		}
		d.leave("a0")
		d.leave("a1")
		d.want("in turns", "a0", "a1", "b1")
		d.change(Capacity{})
		d.pause(every)
	})
}

// TestManyCalls has more calls than may run come, rest, go and be cancelled, in
// any order. Never more run than may, and nobody waits for ever.
func TestManyCalls(t *testing.T) {
	c := Capacity{Memory: 1000 * mb, CPUs: 4, Sandboxes: 8}
	g := New(t.Context(), Options{Capacity: func() Capacity { return c }})
	var mu sync.Mutex
	idle := map[*Seat]bool{}
	g.EvictBy(func(context.Context, Need) bool {
		mu.Lock()
		defer mu.Unlock()
		for s := range idle {
			delete(idle, s)
			s.Leave()
			return true
		}
		return false
	})
	var work sync.WaitGroup
	for n := range 40 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 0))
			var seat *Seat
			for range 50 {
				mu.Lock()
				if seat != nil && !idle[seat] {
					seat = nil
				}
				delete(idle, seat)
				mu.Unlock()
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(1000))*time.Microsecond, cancel)
				}
				r := Request{fmt.Sprint(n % 3), fmt.Sprint(n), int64(100+random.IntN(300)) * mb, 1}
				s, err := g.Enter(ctx, r, seat)
				cancel()
				if err != nil {
					if seat != nil {
						mu.Lock()
						idle[seat] = true
						mu.Unlock()
					}
					continue
				}
				g.mu.Lock()
				if g.running.count > 1 && (g.running.memory > c.Memory || g.running.cpus > c.CPUs) || g.boxes > c.Sandboxes {
					t.Errorf("%+v run, of %d sandboxes", g.running, g.boxes)
				}
				g.mu.Unlock()
				seat = nil
				if random.IntN(2) == 0 && s.Rest() {
					mu.Lock()
					seat, idle[s] = s, true
					mu.Unlock()
				} else {
					s.Leave()
				}
			}
		})
	}
	work.Wait()
	g.Close() // with what it evicts by itself
	for s := range idle {
		s.Leave()
	}
	if g.running.count != 0 || g.running.memory != 0 || g.boxes != 0 || g.resting != 0 || g.line.count != 0 {
		t.Errorf("in the end the books have %+v, %d sandboxes, %d resting, %d waiting", g.running, g.boxes, g.resting, g.line.count)
	}
}
