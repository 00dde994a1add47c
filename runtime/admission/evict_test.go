package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloche.dev/cloche/policy/fault"
)

// TestEvictionAbreast: for several calls that lack a sandbox alone several are
// ended at the same time, but for none that lacks a processor as well.
func TestEvictionAbreast(t *testing.T) {
	for _, tt := range []struct{ cpus, want int }{{1, 1}, {2, 2}, {3, 3}, {100, 4}} {
		at(t, Capacity{}, func(t *testing.T, d *desk) {
			rest := []string{"r0", "r1", "r2", "r3", "r4", "r5"}
			d.come(rest...)
			for _, c := range rest {
				d.rest(c)
			}
			d.change(Capacity{CPUs: float64(tt.cpus), Sandboxes: len(rest)})
			d.entered = nil
			evicting, goOn := 0, make(chan struct{})
			d.evict = func(Need) bool {
				s := d.seats[rest[0]]
				delete(d.seats, rest[0])
				rest = rest[1:]
				evicting++
				d.mu.Unlock()
				<-goOn // it takes its time
				d.mu.Lock()
				s.Leave()
				return true
			}
			d.come("a0", "a1", "a2", "a3", "a4")
			if evicting != tt.want || len(d.entered) != 0 {
				t.Errorf("for five calls and %d processors %d sandboxes are being ended, want %d", tt.cpus, evicting, tt.want)
			}
			d.settle(func() { close(goOn) })
			if want := min(tt.cpus, 5); len(d.entered) != want || evicting != want {
				t.Errorf("then %d of %d came in, and %d sandboxes were ended", len(d.entered), want, evicting)
			}
		})
	}
}

// TestNothingToEvict: calls for which nothing can be ended look again from time to
// time, not all the time.
func TestNothingToEvict(t *testing.T) {
	at(t, Capacity{Sandboxes: 2}, func(_ *testing.T, d *desk) {
		d.come("r0", "r1")
		d.rest("r0")
		d.rest("r1")
		looks := 0
		d.evict = func(Need) bool {
			looks++
			return false
		}
		d.come("a0", "a1", "a2", "a3", "a4")
		d.pause(patience - time.Second)
		if most := 5 * int(patience/look); looks < int(patience/look)/2 || looks > most {
			t.Errorf("for five calls in %v it was looked %d times, want %d at most", patience, looks, most)
		}
	})
}

// TestSlowEviction: who waits is told so in time, though what is ended for it is
// not; and may be cancelled.
func TestSlowEviction(t *testing.T) {
	at(t, Capacity{Sandboxes: 1}, func(t *testing.T, d *desk) {
		d.come("r0")
		d.rest("r0")
		d.evict = func(Need) bool {
			s := d.seats["r0"]
			if s == nil {
				return false
			}
			delete(d.seats, "r0")
			d.mu.Unlock()
			<-time.After(patience + 2*time.Second)
			d.mu.Lock()
			s.Leave()
			return true
		}
		ctx, cancel := context.WithCancel(t.Context())
		d.enter(ctx, "a0", mb, 1, nil)
		d.come("a1")
		d.settle(cancel)
		if !errors.Is(d.errors["a0"], context.Canceled) {
			t.Errorf("the cancelled call: %v", d.errors["a0"])
		}
		d.pause(patience)
		if fault.KindOf(d.errors["a1"]) != fault.Busy || d.took["a1"] != patience {
			t.Errorf("the other call: %v after %v, want busy after %v", d.errors["a1"], d.took["a1"], patience)
		}
		d.come("a2")
		d.pause(patience - time.Second)
		d.want("when it has ended", "r0", "a2")
	})
}
