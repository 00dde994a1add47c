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
}

// A Turn is the right to run, until Leave, or if it was kept, until End.
type Turn struct {
	// Number is the call's, as it was given to Enter.
	Number int
	// Behind is the number of the call that ran when this one came, 0 if there
	// was none, or none but one that was over and only being cleared up after.
	Behind int
	// Waited is how long it waited.
	Waited time.Duration

	q     *Queue
	ready chan struct{}
	kept  bool // q.mu
	once  sync.Once
}

// Enter waits, for the call of that number, until no other call runs and none
// that came before waits. With maxWaiting others waiting already it refuses at
// once. When ctx ends first it returns the cause, and the place in the queue is
// given up.
func (q *Queue) Enter(ctx context.Context, number, maxWaiting int) (*Turn, error) {
	t := &Turn{Number: number, q: q, ready: make(chan struct{})}
	runs, err := q.join(t, maxWaiting)
	if err != nil {
		return nil, err
	}
	if runs {
		return t, nil
	}
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

// join makes t run, which is true, or wait, if it may.
func (q *Queue) join(t *Turn, maxWaiting int) (runs bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == nil {
		q.running = t
		return true, nil
	}
	n := len(q.waiting)
	if q.running.kept {
		maxWaiting++ // whoever is first is as good as running
	} else {
		t.Behind = q.running.Number
	}
	if n >= maxWaiting {
		return false, fault.New(fault.Busy, "%d calls of this conversation are waiting already, as many as may; wait for their results, then call again", n)
	}
	q.waiting = append(q.waiting, t)
	return false, nil
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

// Keep says that the call is over but for what is cleared up after it: Leave
// does nothing from now on, the turn lasts until End.
func (t *Turn) Keep() {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	t.kept = true
}

// Leave ends the turn, unless it was kept.
func (t *Turn) Leave() {
	t.q.mu.Lock()
	kept := t.kept
	t.q.mu.Unlock()
	if !kept {
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
