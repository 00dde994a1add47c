package conversation

import (
	"context"
	"slices"
	"sync"
	"time"

	"cloche.dev/cloche/policy/fault"
)

// A Queue lets one call run at a time, in the order of their coming. Its zero
// value is ready. It may be used from several goroutines.
type Queue struct {
	mu      sync.Mutex
	running *Turn   // mu
	waiting []*Turn // mu
	entered int     // mu
}

// A Turn is the right to run, until Leave, or if it was kept, until End.
type Turn struct {
	// Number counts the calls that entered the queue; the first is 1.
	Number int
	// Behind is the number of the call that ran when this one came, 0 if none.
	Behind int
	// Waited is how long it waited.
	Waited time.Duration

	q     *Queue
	ready chan struct{}
	kept  bool
	once  sync.Once
}

// Enter waits until no other call runs and none that came before waits. With
// maxWaiting others waiting already it refuses at once. When ctx ends first it
// returns the cause, and the place in the queue is given up.
func (q *Queue) Enter(ctx context.Context, maxWaiting int) (*Turn, error) {
	q.mu.Lock()
	if len(q.waiting) >= maxWaiting && q.running != nil {
		n := len(q.waiting)
		q.mu.Unlock()
		return nil, fault.New(fault.Busy, "%d calls of this conversation are waiting already, as many as may; wait for their results, then call again", n)
	}
	q.entered++
	t := &Turn{Number: q.entered, q: q, ready: make(chan struct{})}
	if q.running == nil {
		q.running = t
		q.mu.Unlock()
		return t, nil
	}
	t.Behind = q.running.Number
	q.waiting = append(q.waiting, t)
	q.mu.Unlock()
	start := time.Now()
	select {
	case <-t.ready:
		t.Waited = time.Since(start)
		return t, nil
	case <-ctx.Done():
		q.giveUp(t)
		return nil, context.Cause(ctx)
	}
}

// giveUp takes t out of the queue, or passes on the turn that came meanwhile.
func (q *Queue) giveUp(t *Turn) {
	q.mu.Lock()
	i := slices.Index(q.waiting, t)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 {
		t.End()
	}
}

// Keep makes Leave do nothing: the turn lasts until End.
func (t *Turn) Keep() { t.kept = true }

// Leave ends the turn, unless it was kept. It is for the goroutine that entered.
func (t *Turn) Leave() {
	if !t.kept {
		t.End()
	}
}

// End ends the turn; the next one runs. Ending twice is no error.
func (t *Turn) End() {
	t.once.Do(func() {
		q := t.q
		q.mu.Lock()
		defer q.mu.Unlock()
		q.running = nil
		if len(q.waiting) > 0 {
			q.running = q.waiting[0]
			q.waiting = q.waiting[1:]
			close(q.running.ready)
		}
	})
}
