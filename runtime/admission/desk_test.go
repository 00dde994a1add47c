package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const mb = 1_000_000

// A desk is a gate and who comes to it. Its test holds mu but while it waits.
type desk struct {
	t        *testing.T
	gate     *Gate
	capacity Capacity
	entered  []string         // the conversations, in the order of their coming in
	seats    map[string]*Seat // those that are in
	errors   map[string]error
	took     map[string]time.Duration
	mu       sync.Mutex
	evict    func(Need) bool // mu
	work     sync.WaitGroup
}

// at tests a gate of that capacity in a world with a clock of its own.
func at(t *testing.T, c Capacity, f func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, c, nil)
		defer d.close()
		f(t, d)
	})
}

func newDesk(t *testing.T, c Capacity, headroom func() Headroom) *desk {
	d := &desk{t: t, capacity: c, seats: map[string]*Seat{}, errors: map[string]error{}, took: map[string]time.Duration{}}
	d.gate = New(t.Context(), Options{Capacity: func() Capacity { return d.capacity }, Headroom: headroom})
	d.gate.EvictBy(func(_ context.Context, n Need) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.evict != nil && d.evict(n)
	})
	d.mu.Lock()
	return d
}

// close has everybody leave, and checks that the books are empty then.
func (d *desk) close() {
	d.t.Helper()
	d.evict = nil
	for range 100 {
		seats := d.seats
		d.seats = map[string]*Seat{}
		for _, s := range seats {
			d.settle(s.Leave)
		}
		d.pause(time.Second)
	}
	d.mu.Unlock()
	d.work.Wait()
	d.gate.Close()
	g := d.gate
	if g.running.count != 0 || g.running.memory != 0 || g.running.cpus != 0 || g.running.began != 0 || g.boxes != 0 || g.resting != 0 || g.line.count != 0 {
		d.t.Errorf("when all have left, the books have %+v, %d sandboxes, %d resting, %d waiting", g.running, g.boxes, g.resting, g.line.count)
	}
}

// change changes what there is.
func (d *desk) change(to Capacity) {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	d.capacity = to
}

// enter has a call come, whose conversation is that of the name, and whose
// principal its first letter, and waits until it is in or waits.
func (d *desk) enter(ctx context.Context, conversation string, memory int64, cpus float64, s *Seat) {
	come := func() {
		begin := time.Now()
		s, err := d.gate.Enter(ctx, Request{conversation[:1], conversation, memory, cpus}, s)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.took[conversation] = time.Since(begin)
		if err != nil {
			d.errors[conversation] = err
			return
		}
		d.entered = append(d.entered, conversation)
		d.seats[conversation] = s
	}
	d.settle(func() { d.work.Go(come) })
}

// settle does something and waits until all wait.
func (d *desk) settle(something func()) {
	d.mu.Unlock()
	defer d.mu.Lock()
	something()
	synctest.Wait()
}

// pause lets time pass.
func (d *desk) pause(t time.Duration) { d.settle(func() { <-time.After(t) }) }

func (d *desk) come(conversations ...string) {
	for _, c := range conversations {
		d.enter(d.t.Context(), c, 100*mb, 1, nil)
	}
}

// leave has a call end with its sandbox.
func (d *desk) leave(conversation string) {
	d.t.Helper()
	s := d.seats[conversation]
	if s == nil {
		d.t.Fatalf("%s is not in", conversation)
	}
	delete(d.seats, conversation)
	d.settle(s.Leave)
}

// rest has a call end, and its sandbox stay.
func (d *desk) rest(conversation string) bool {
	d.t.Helper()
	s, ok := d.seats[conversation], false
	d.settle(func() { ok = s.Rest() })
	return ok
}

func (d *desk) want(what string, conversations ...string) {
	d.t.Helper()
	d.pause(0)
	if diff := cmp.Diff(conversations, d.entered); diff != "" {
		d.t.Errorf("%s: came in (-want +got):\n%s", what, diff)
	}
}
