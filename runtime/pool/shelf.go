package pool

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/pydriver"
)

const (
	// A pool waits after a sandbox could not be started, or died soon: at first
	// firstRetry, then each time twice as long, up to lastRetry.
	firstRetry = 5 * time.Second
	lastRetry  = time.Minute
	// steady is how long a sandbox has to live for its kind to be in order.
	steady = 10 * time.Second
	// kept is how long sandboxes are kept warm of a kind that nobody asks for any
	// more, if others are asked for; maxKinds is of how many at most.
	kept     = 5 * time.Minute
	maxKinds = 4
)

// A shelf is what is kept of one kind. Its pool's mu guards all of it.
type shelf struct {
	kind  Kind
	want  int
	asked time.Time
	warm  []*member // the oldest first
	// wait is how long nothing is started after the next failure, retry when that
	// time is over after the last one, trouble why it failed.
	wait    time.Duration
	retry   time.Time
	trouble error
	ahead
}

// A member is a warm sandbox.
type member struct {
	process *pydriver.Process
	since   time.Time
	seat    *admission.Seat // nil without a gate
	out     chan struct{}   // closed when it is the pool's no more
}

func (m *member) dead() bool {
	select {
	case <-m.process.Gone():
		return true
	default:
		return false
	}
}

// leave says that it is no sandbox that nobody has asked for any more.
func (m *member) leave() {
	if m.seat != nil {
		m.seat.Leave()
	}
}

// remove takes m out. It is no error if it is out already.
func (s *shelf) remove(m *member) {
	i := slices.Index(s.warm, m)
	if i < 0 {
		return
	}
	s.warm = slices.Delete(s.warm, i, i+1)
	close(m.out)
}

// lacks says whether one more is to be started.
func (s *shelf) lacks() bool { return len(s.warm) < s.want }

// failed says that a sandbox could not be started, or kept. Those that fail
// together count once.
func (s *shelf) failed(err error) (next time.Duration) {
	s.trouble = err
	if now := time.Now(); !now.Before(s.retry) {
		s.retry = now.Add(s.wait)
		s.wait = min(2*s.wait, lastRetry)
	}
	return time.Until(s.retry)
}

// good says that a sandbox has shown that its kind is in order.
func (s *shelf) good() { s.trouble, s.wait, s.retry = nil, firstRetry, time.Time{} }

// shelf returns the shelf of kind, nil if there is none.
// Preconditions: p.mu is held.
func (p *Pool) shelf(kind Kind) *shelf {
	for _, s := range p.shelves {
		if s.kind.Digest == kind.Digest {
			return s
		}
	}
	return nil
}

// ask returns the shelf of kind, for which somebody asks, and clears those away
// that nobody asks for any more.
// Preconditions: p.mu is held.
func (p *Pool) ask(ctx context.Context, kind Kind) *shelf {
	s := p.shelf(kind)
	if s == nil {
		s = &shelf{kind: kind, wait: firstRetry}
	} else {
		p.shelves = slices.DeleteFunc(p.shelves, func(o *shelf) bool { return o == s })
	}
	s.asked = time.Now()
	p.shelves = append(p.shelves, s)
	if len(p.shelves) > maxKinds {
		p.clear(ctx, p.shelves[0])
	}
	p.expire(ctx)
	return s
}

// expire clears away what nobody has asked for for long, but for what was asked
// for last, and sees to that being done later for what is left.
// Preconditions: p.mu is held.
func (p *Pool) expire(ctx context.Context) {
	for len(p.shelves) > 1 && time.Since(p.shelves[0].asked) >= kept {
		p.clear(ctx, p.shelves[0])
	}
	if p.expiry != nil || len(p.shelves) < 2 {
		return
	}
	p.expiry = time.AfterFunc(time.Until(p.shelves[0].asked.Add(kept)), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.expiry = nil
		if !p.closed {
			p.expire(p.ctx)
		}
	})
}

// clear destroys what is kept of a kind.
// Preconditions: p.mu is held, s is a shelf of p.
func (p *Pool) clear(ctx context.Context, s *shelf) {
	s.want = 0
	for len(s.warm) > 0 {
		p.discard(ctx, s, s.warm[0])
	}
	p.shelves = slices.DeleteFunc(p.shelves, func(o *shelf) bool { return o == s })
}

// fill starts the filler, or has it look, if something is missing.
// Preconditions: p.mu is held.
func (p *Pool) fill() {
	switch {
	case p.enough():
	case p.filling:
		p.poke()
	default:
		p.filling = true
		p.work.Go(func() { p.filler(p.ctx) })
	}
}

// enough says that no more is to be started.
// Preconditions: p.mu is held.
func (p *Pool) enough() bool {
	return p.closed || p.ctx.Err() != nil || !slices.ContainsFunc(p.shelves, (*shelf).lacks)
}

// filler starts sandboxes, one after the other, until there are enough. Callers
// come first: while one starts a sandbox of its own, it starts none.
func (p *Pool) filler(ctx context.Context) {
	for {
		p.mu.Lock()
		if p.enough() {
			p.filling = false
			p.mu.Unlock()
			return
		}
		s, wait := p.missing()
		p.mu.Unlock()
		if s == nil {
			p.pause(ctx, wait)
			continue
		}
		var seat *admission.Seat
		if p.gate != nil {
			var err error
			if seat, err = p.gate.Spare(ctx); err != nil {
				continue // the pool has ended
			}
		}
		p.start(ctx, s, seat)
	}
}

// missing returns the shelf to start a sandbox for, the last asked for first; if
// there is none now, when there will be, 0 if nobody knows.
// Preconditions: p.mu is held.
func (p *Pool) missing() (*shelf, time.Duration) {
	var wait time.Duration
	if p.callers > 0 {
		return nil, 0
	}
	for _, s := range slices.Backward(p.shelves) {
		if !s.lacks() {
			continue
		}
		left := time.Until(s.retry)
		if left <= 0 {
			return s, 0
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return nil, wait
}

// start starts a sandbox for s, unless that is not called for any more.
func (p *Pool) start(ctx context.Context, s *shelf, seat *admission.Seat) {
	m := &member{seat: seat, out: make(chan struct{})}
	p.mu.Lock()
	called := s.lacks() && p.callers == 0
	p.mu.Unlock()
	if !called {
		m.leave()
		return
	}
	var err error
	m.process, err = pydriver.Start(ctx, p.runner, s.kind.Spec, s.kind.Preload)
	if err != nil {
		m.leave()
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		next := s.failed(err)
		p.mu.Unlock()
		p.log.WarnContext(ctx, "start a warm sandbox", slog.Any("error", err), slog.Duration("next", next))
		return
	}
	if !p.add(ctx, s, m) {
		p.destroy(ctx, m)
	}
}

// add keeps m, if it is still wanted.
func (p *Pool) add(ctx context.Context, s *shelf, m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !s.lacks() {
		return false
	}
	m.since = time.Now()
	s.warm = append(s.warm, m)
	p.met(s, m.process)
	p.work.Go(func() { p.guard(ctx, s, m) })
	return true
}

// guard sees whether m lives, as long as it is the pool's.
func (p *Pool) guard(ctx context.Context, s *shelf, m *member) {
	proof := time.NewTimer(p.steady)
	defer proof.Stop()
	for {
		select {
		case <-m.out:
			return
		case <-proof.C:
			p.mu.Lock()
			s.good()
			p.mu.Unlock()
		case <-m.process.Gone():
			p.mu.Lock()
			defer p.mu.Unlock()
			if slices.Contains(s.warm, m) {
				p.died(ctx, s, m)
				p.fill()
			}
			return
		}
	}
}

// died takes m out, which has ended by itself. If that was soon, it counts as one
// that could not be started.
// Preconditions: p.mu is held, m is in s.
func (p *Pool) died(ctx context.Context, s *shelf, m *member) {
	p.discard(ctx, s, m)
	lived := time.Since(m.since)
	if lived >= p.steady {
		return
	}
	err := fault.New(fault.Unavailable, "a sandbox ended by itself %s after its start", human.Seconds(lived))
	next := s.failed(err)
	p.log.WarnContext(ctx, "a warm sandbox died", slog.Any("error", err), slog.Duration("next", next))
}

// pause waits for d, if it is not 0, until something changes, or for the end of ctx.
func (p *Pool) pause(ctx context.Context, d time.Duration) {
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-p.wake:
	case <-ctx.Done():
	}
}
