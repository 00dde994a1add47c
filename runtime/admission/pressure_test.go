package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// evictable has the desk's gate evict the conversations' sandboxes that rest, in
// the order of the names, those with a ! only if the brisk are not spared.
func (d *desk) evictable(conversations ...string) *[]string {
	var evicted []string
	d.evict = func(n Need) bool {
		for i, c := range conversations {
			if brisk := strings.HasPrefix(c, "!"); brisk && !n.Brisk {
				continue
			}
			conversations = slices.Delete(conversations, i, i+1)
			evicted = append(evicted, c)
			c = strings.TrimPrefix(c, "!")
			s := d.seats[c]
			delete(d.seats, c)
			s.Leave()
			return true
		}
		return false
	}
	return &evicted
}

func TestEviction(t *testing.T) {
	const small = 100 * mb
	for _, tt := range []struct {
		name     string
		capacity Capacity
		runs     int // calls that run, beside sandboxes that rest
		rest     []string
		memory   int64
		evicted  []string
		in       bool
	}{
		{"room", Capacity{Memory: 3*Idle + 2*small}, 1, []string{"r0", "r1", "r2"}, small, nil, true},
		{"memory", Capacity{Memory: 3*Idle + 2*small - 1}, 1, []string{"r0", "r1", "r2"}, small, []string{"r0"}, true},
		{"more memory", Capacity{Memory: 4*Idle + 2*small}, 1, []string{"r0", "r1", "r2"}, small + 3*Idle, []string{"r0", "r1"}, true},
		{"more than all of them have", Capacity{Memory: 4*Idle + 2*small}, 1, []string{"r0", "r1", "r2"}, small + 4*Idle + 1, nil, false},
		{"alone", Capacity{Memory: small}, 0, []string{"r0", "r1", "r2"}, small, nil, true},
		{"too many rest beside one alone", Capacity{Memory: 2 * Idle}, 0, []string{"r0", "r1", "r2"}, Idle, []string{"r0"}, true},
		{"sandbox", Capacity{Sandboxes: 3}, 0, []string{"r0", "r1", "r2"}, small, []string{"r0"}, true},
		{"sandbox, and a call runs", Capacity{Sandboxes: 4}, 1, []string{"r0", "r1", "r2"}, small, []string{"r0"}, true},
		{"processors", Capacity{CPUs: 1, Sandboxes: 4}, 1, []string{"r0", "r1", "r2"}, small, nil, false},
		{"the brisk last", Capacity{Sandboxes: 3}, 0, []string{"!r0", "r1", "!r2"}, small, []string{"r1"}, true},
		{"all brisk", Capacity{Sandboxes: 3}, 0, []string{"!r0", "!r1", "!r2"}, small, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at(t, tt.capacity, func(t *testing.T, d *desk) {
				most := d.capacity
				d.change(Capacity{})
				var rest []string
				for _, c := range tt.rest {
					c = strings.TrimPrefix(c, "!")
					d.come(c)
					rest = append(rest, c)
				}
				for n := range tt.runs {
					d.come(fmt.Sprintf("x%d", n))
				}
				for _, c := range rest {
					d.rest(c)
				}
				evicted := d.evictable(tt.rest...)
				d.change(most)
				d.enter(t.Context(), "a", tt.memory, 1, nil)
				d.pause(patience/2 - 2*look - 1)
				if in := d.seats["a"] != nil; in != tt.in {
					t.Errorf("the call came in: %v, want %v", in, tt.in)
				}
				if diff := cmp.Diff(tt.evicted, *evicted); diff != "" {
					t.Errorf("evicted (-want +got):\n%s", diff)
				}
				if tt.name != "all brisk" {
					return
				}
				d.pause(4 * look)
				if d.seats["a"] == nil || len(*evicted) != 1 {
					t.Errorf("when half the patience is over %v were evicted, and the call came in: %v", *evicted, d.seats["a"] != nil)
				}
			})
		})
	}
}

// TestFewerSandboxes: where fewer may be than there are, those that are longest
// idle end.
func TestFewerSandboxes(t *testing.T) {
	at(t, Capacity{Sandboxes: 4}, func(t *testing.T, d *desk) {
		d.come("r0", "r1", "x", "r2")
		for _, c := range []string{"r0", "r1", "r2"} {
			d.rest(c)
		}
		evicted := d.evictable("r0", "r1", "!r2")
		for _, tt := range []struct {
			most int
			want []string
		}{{4, nil}, {3, []string{"r0"}}, {1, []string{"r0", "r1", "!r2"}}} {
			d.change(Capacity{Sandboxes: tt.most})
			d.pause(2 * every)
			if diff := cmp.Diff(tt.want, *evicted); diff != "" {
				t.Errorf("where %d may be, evicted (-want +got):\n%s", tt.most, diff)
			}
		}
	})
}

// TestWanted: a sandbox that begins to rest has to end where a call has waited
// for long for it.
func TestWanted(t *testing.T) {
	at(t, Capacity{Sandboxes: 2, CPUs: 10}, func(t *testing.T, d *desk) {
		d.come("a0", "a1", "b")
		if !d.rest("a0") {
			t.Error("for a call that has just come a sandbox has to end at once")
		}
		d.enter(t.Context(), "a0", 100*mb, 1, d.seats["a0"])
		d.want("with the sandbox that it had", "a0", "a1", "a0")
		d.pause(patience / 2)
		if d.rest("a0") {
			t.Error("for a call that has waited for long a sandbox need not end")
		}
		d.leave("a0")
		d.want("who has waited", "a0", "a1", "a0", "b")
	})
}

// TestSpare: what nobody has asked for comes last.
func TestSpare(t *testing.T) {
	at(t, Capacity{Memory: 200*mb + 2*Idle, CPUs: 2}, func(t *testing.T, d *desk) {
		var got []*Seat
		ctx, cancel := context.WithCancel(t.Context())
		wait := func() {
			s, err := d.gate.Spare(ctx)
			if err != nil {
				return
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			got = append(got, s)
		}
		spare := func() { d.settle(func() { d.work.Go(wait) }) }
		want := func(what string, n int) {
			t.Helper()
			d.pause(0)
			if len(got) != n {
				t.Errorf("%s: %d sandboxes may be started, want %d", what, len(got), n)
			}
		}
		d.come("a0", "a1", "a2")
		spare()
		want("while a call waits", 0)
		d.leave("a0")
		want("when none waits", 1)
		spare()
		spare()
		want("as long as there is room", 2)
		d.leave("a1")
		want("when one runs alone", 3)
		for range 10 {
			spare()
		}
		want("in all memory", 13)
		spare()
		want("and one more", 13)
		first := got[0]
		first.Leave()
		first.Leave()
		want("in the place of one that has ended", 14)
		spare()
		cancel()
		want("cancelled", 14)
		for _, s := range got {
			s.Leave()
		}
		if d.gate.boxes != 1 || d.gate.resting != 0 || len(d.gate.spares) != 0 {
			t.Errorf("%d sandboxes, %d rest, %d wait", d.gate.boxes, d.gate.resting, len(d.gate.spares))
		}
	})
}

// TestShortHost: others take the host's memory. What rests ends, longest idle
// first, fewer calls come in, one at least; and all is as before when the memory
// is there again.
func TestShortHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const floor = 1000 * mb
		h := Headroom{Total: 20 * floor, Available: 10 * floor}
		looks := 0
		d := newDesk(t, Capacity{Memory: 10 * floor}, func() Headroom {
			looks++
			return h
		})
		defer d.close()
		host := func(available, used int64) {
			d.gate.mu.Lock()
			defer d.gate.mu.Unlock()
			h.Available, h.Used = available, used
		}
		d.come("r0", "r1", "r2")
		for _, c := range []string{"r0", "r1", "r2"} {
			d.rest(c)
		}
		evicted := d.evictable("r0", "r1", "r2")
		host(floor, 0)
		d.pause(2 * every)
		if len(*evicted) != 0 {
			t.Errorf("at the floor %v were evicted", *evicted)
		}
		host(floor-1, 0)
		d.pause(every)
		if diff := cmp.Diff([]string{"r0", "r1", "r2"}, *evicted); diff != "" {
			t.Errorf("below the floor there were evicted (-want +got):\n%s", diff)
		}
		before := looks
		d.pause(time.Hour)
		if looks != before {
			t.Errorf("with nothing to evict the host was looked at %d times", looks-before)
		}
		d.entered = nil
		d.come("a0", "a1")
		d.want("one at least", "a0")
		host(floor+199*mb, 0) // a0 may take 100 MB of it
		d.pause(every)
		d.want("a byte less than two need", "a0")
		host(floor+200*mb, 0)
		d.pause(every)
		d.want("what two need", "a0", "a1")
		d.come("a2")
		host(floor+50*mb, 150*mb) // what calls have taken is not counted twice
		d.pause(every)
		d.want("what two need, and have taken", "a0", "a1")
		host(floor+150*mb, 150*mb)
		d.pause(every)
		d.want("recovered", "a0", "a1", "a2")
		host(floor, 150*mb)
		d.come("a3")
		d.pause(patience)
		if err := d.errors["a3"]; err == nil || !strings.HasPrefix(err.Error(), "others have taken this server's memory; 1 call waits; ") {
			t.Errorf("a call for which there is no memory: %v", err)
		}
	})
}

// TestHostIsSeenSeldom: many calls do not have the host looked at many times.
func TestHostIsSeenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		d := newDesk(t, Capacity{}, func() Headroom {
			looks++
			return Headroom{Total: 1 << 40, Available: 1 << 40}
		})
		defer d.close()
		for n := range 100 {
			d.come(fmt.Sprintf("a%d", n))
		}
		if looks != 1 {
			t.Errorf("for calls of one moment the host was looked at %d times", looks)
		}
		d.pause(fresh)
		d.come("b")
		if looks != 2 {
			t.Errorf("a while later the host was looked at %d times in all", looks)
		}
	})
}

func TestLeft(t *testing.T) {
	const gb = 1000 * mb
	for _, tt := range []struct {
		name    string
		h       Headroom
		limits  int64
		resting int
		want    int64
	}{
		{"small host", Headroom{Total: gb, Available: gb}, 0, 0, gb - leastFloor},
		{"large host", Headroom{Total: 100 * gb, Available: 50 * gb}, 0, 0, 45 * gb},
		{"calls that have taken nothing", Headroom{Total: 100 * gb, Available: 50 * gb}, 20 * gb, 0, 25 * gb},
		{"calls that have taken some", Headroom{Total: 100 * gb, Available: 50 * gb, Used: 5 * gb}, 20 * gb, 0, 30 * gb},
		{"what rests has taken some of it", Headroom{Total: 100 * gb, Available: 50 * gb, Used: 5*gb + 3*Idle}, 20 * gb, 3, 30 * gb},
		{"what rests has taken less", Headroom{Total: 100 * gb, Available: 50 * gb, Used: Idle}, 20 * gb, 3, 25 * gb},
		{"more than the limits", Headroom{Total: 100 * gb, Available: 50 * gb, Used: 25 * gb}, 20 * gb, 0, 45 * gb},
		{"short", Headroom{Total: 100 * gb, Available: 4 * gb}, 0, 0, -gb},
	} {
		if got := tt.h.left(tt.limits, tt.resting); got != tt.want {
			t.Errorf("%s: left = %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestMargin: what ended for others' sake is not started again at once.
func TestMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Headroom{Total: 1000 * mb, Available: leastFloor + margin - 1}
		d := newDesk(t, Capacity{}, func() Headroom { return h })
		defer d.close()
		var s *Seat
		d.settle(func() {
			d.work.Go(func() {
				got, err := d.gate.Spare(t.Context())
				d.mu.Lock()
				defer d.mu.Unlock()
				if s = got; err != nil {
					t.Error(err)
				}
			})
		})
		d.pause(time.Minute)
		if s != nil {
			t.Fatal("a byte below the margin there is room for a sandbox that nobody asked for")
		}
		d.gate.mu.Lock()
		h.Available++
		d.gate.mu.Unlock()
		d.pause(every)
		if s == nil {
			t.Fatal("at the margin there is no room")
		}
		d.settle(s.Leave)
	})
}
