// Package pool keeps warm sandboxes: started, with nothing run in them yet, for
// whoever needs one next. What is handed out is never taken back. Sandboxes are
// kept of the kind that was asked for last, and for a while of a few others.
package pool

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// A Kind says what a sandbox is made of. Sandboxes of one kind are alike.
type Kind struct {
	// Digest tells kinds apart.
	Digest  string
	Spec    sandbox.Spec
	Preload []string
}

// Options are what a Pool works with.
type Options struct {
	Runner sandbox.Runner
	Log    *slog.Logger
	// Gate says when there is room for a sandbox that nobody has asked for; nil
	// stands for always.
	Gate *admission.Gate
}

// A Pool keeps warm sandboxes. Its methods may be called from several goroutines.
type Pool struct {
	runner sandbox.Runner
	log    *slog.Logger
	gate   *admission.Gate
	starts chan struct{}   // holds one for each that is being started for a caller
	ctx    context.Context //nolint:containedctx // the pool's own life, which ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{} // gets a word when the filler is to look again
	steady time.Duration // the constant, but in tests

	mu      sync.Mutex
	shelves []*shelf    // mu; that of the kind that was asked for last is last
	callers int         // mu; who start sandboxes of their own
	expiry  *time.Timer // mu; when a kind may be kept no longer; nil if there is none
	filling bool        // mu
	closed  bool        // mu
}

// New returns an empty pool, which lives until Close or the end of ctx.
func New(ctx context.Context, o Options) *Pool {
	ctx, cancel := context.WithCancel(ctx)
	// More at once would take longer all together, and keep processors from calls
	// that run.
	starts := make(chan struct{}, 2*runtime.NumCPU())
	return &Pool{
		runner: o.Runner, log: o.Log, gate: o.Gate,
		starts: starts, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1), steady: steady,
	}
}

// Keep says that somebody asks for kind, and how many sandboxes of it are to be
// kept warm. What is warm beyond that is destroyed in the background, and so is,
// after a while, what is warm of kinds that are asked for no more.
func (p *Pool) Keep(ctx context.Context, kind Kind, want int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	s := p.ask(ctx, kind)
	s.want = max(want, 0)
	for len(s.warm) > s.want {
		p.discard(ctx, s, s.warm[len(s.warm)-1])
	}
	p.fill()
}

// Take returns a sandbox of kind: a warm one if there is one, else a new one.
// It is the caller's to destroy.
func (p *Pool) Take(ctx context.Context, kind Kind) (*pydriver.Process, error) {
	if s := p.take(ctx, kind); s != nil {
		return s, nil
	}
	defer p.calling()()
	select {
	case p.starts <- struct{}{}:
		defer func() { <-p.starts }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	started, err := pydriver.Start(ctx, p.runner, kind.Spec, kind.Preload)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shelf(kind); s != nil {
		p.met(s, started)
	}
	return started, nil
}

// take returns a living warm sandbox, or nil.
func (p *Pool) take(ctx context.Context, kind Kind) *pydriver.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelf(kind)
	if s == nil {
		return nil
	}
	defer p.fill()
	for len(s.warm) > 0 {
		m := s.warm[0]
		if m.dead() {
			p.died(ctx, s, m)
			continue
		}
		s.remove(m)
		m.leave()
		return m.process
	}
	return nil
}

// calling says that a caller starts a sandbox of its own, until the function that
// it returns is called. The filler stands back.
func (p *Pool) calling() (done func()) {
	p.mu.Lock()
	p.callers++
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.callers--
		p.poke()
	}
}

// Warm returns how many sandboxes are warm, and one of the kind that was asked
// for last; it stays the pool's.
func (p *Pool) Warm() (int, *pydriver.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	var last *pydriver.Process
	for _, s := range p.shelves {
		n += len(s.warm)
		last = nil
		if len(s.warm) > 0 {
			last = s.warm[0].process
		}
	}
	return n, last
}

// Trouble returns why no sandbox of the kind that was asked for last is kept warm:
// the last one could not be started, or died soon; nil if none did, or one has
// lived for a while since.
func (p *Pool) Trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.shelves) == 0 {
		return nil
	}
	return p.shelves[len(p.shelves)-1].trouble
}

// Evict ends the warm sandbox that will be missed least, and waits for that;
// false if there is none.
func (p *Pool) Evict(ctx context.Context) bool {
	m := p.leastMissed()
	if m == nil {
		return false
	}
	p.destroy(ctx, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	return true
}

// leastMissed takes out the oldest of the kind that was not asked for for longest.
func (p *Pool) leastMissed() *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		if len(s.warm) > 0 {
			m := s.warm[0]
			s.remove(m)
			return m
		}
	}
	return nil
}

// Close destroys what is warm and waits for that, also when ctx has ended.
func (p *Pool) Close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.shelves {
		for len(s.warm) > 0 {
			p.discard(ctx, s, s.warm[0])
		}
	}
	if p.expiry != nil {
		p.expiry.Stop()
	}
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
}

func (p *Pool) destroy(ctx context.Context, m *member) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := m.process.Destroy(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.log.WarnContext(ctx, "destroy a warm sandbox", slog.Any("error", err))
	}
	m.leave()
}

// discard takes m out and destroys it in the background.
// Preconditions: p.mu is held, m is in s.
func (p *Pool) discard(ctx context.Context, s *shelf, m *member) {
	s.remove(m)
	p.work.Go(func() { p.destroy(ctx, m) })
}

// poke has the filler look again.
func (p *Pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
