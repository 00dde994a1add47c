// Package pool keeps warm sandboxes: started, with nothing run in them yet, for
// whoever needs one next. What is handed out is never taken back.
package pool

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// A pool waits after a sandbox could not be started: at first firstRetry, then
// each time twice as long, up to lastRetry.
const (
	firstRetry = 5 * time.Second
	lastRetry  = time.Minute
)

// A Kind says what a sandbox is made of. Sandboxes of one kind are alike.
type Kind struct {
	// Digest tells kinds apart.
	Digest  string
	Spec    sandbox.Spec
	Preload []string
}

// A Pool keeps up to a number of warm sandboxes of the kind that was asked for
// last. Its methods may be called from several goroutines.
type Pool struct {
	runner sandbox.Runner
	log    *slog.Logger
	starts chan struct{}   // holds one for each that is being started for a caller
	ctx    context.Context //nolint:containedctx // the pool's own life, which ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	kind    Kind                // mu; what is kept warm
	want    int                 // mu; how many
	warm    []*pydriver.Process // mu; all of kind
	filling bool                // mu
	closed  bool                // mu
}

// New returns an empty pool, which lives until Close or the end of ctx.
func New(ctx context.Context, runner sandbox.Runner, log *slog.Logger) *Pool {
	ctx, cancel := context.WithCancel(ctx)
	// More at once would take longer all together, and keep processors from calls
	// that run.
	starts := make(chan struct{}, 2*runtime.NumCPU())
	return &Pool{runner: runner, log: log, starts: starts, ctx: ctx, cancel: cancel}
}

// Keep says what is to be kept warm from now on: want sandboxes of kind. What is
// warm beyond that is never handed out again; it is destroyed in the background.
func (p *Pool) Keep(ctx context.Context, kind Kind, want int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	good := 0
	if p.kind.Digest == kind.Digest {
		good = min(max(want, 0), len(p.warm))
	}
	stale := p.warm[good:]
	p.warm = slices.Clone(p.warm[:good])
	p.kind, p.want = kind, want
	for _, s := range stale {
		p.work.Go(func() { p.destroy(ctx, s) })
	}
	p.fill()
}

// Take returns a sandbox of kind: a warm one if there is one, else a new one.
// It is the caller's to destroy.
func (p *Pool) Take(ctx context.Context, kind Kind) (*pydriver.Process, error) {
	if s := p.take(ctx, kind); s != nil {
		return s, nil
	}
	select {
	case p.starts <- struct{}{}:
		defer func() { <-p.starts }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return pydriver.Start(ctx, p.runner, kind.Spec, kind.Preload)
}

// take returns a living warm sandbox, or nil.
func (p *Pool) take(ctx context.Context, kind Kind) *pydriver.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.fill()
	for kind.Digest == p.kind.Digest && len(p.warm) > 0 {
		s := p.warm[0]
		p.warm = p.warm[1:]
		select {
		case <-s.Gone():
			p.work.Go(func() { p.destroy(ctx, s) })
		default:
			return s
		}
	}
	return nil
}

// Warm returns how many sandboxes are warm, and one of them, for what it knows
// of its modules; it stays the pool's.
func (p *Pool) Warm() (int, *pydriver.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.warm) == 0 {
		return 0, nil
	}
	return len(p.warm), p.warm[0]
}

// Close destroys what is warm and waits for that, also when ctx has ended.
func (p *Pool) Close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	warm := p.warm
	p.warm = nil
	p.mu.Unlock()
	p.cancel()
	for _, s := range warm {
		p.destroy(ctx, s)
	}
	p.work.Wait()
}

// fill starts the filler, unless it runs or nothing is missing.
// Preconditions: p.mu is held.
func (p *Pool) fill() {
	if p.filling || p.enough() {
		return
	}
	p.filling = true
	p.work.Go(func() { p.filler(p.ctx) })
}

// enough says that no more is to be started.
// Preconditions: p.mu is held.
func (p *Pool) enough() bool {
	return p.closed || p.ctx.Err() != nil || len(p.warm) >= p.want
}

// filler starts sandboxes, one after the other, until there are enough.
func (p *Pool) filler(ctx context.Context) {
	wait := firstRetry
	for {
		p.mu.Lock()
		if p.enough() {
			p.filling = false
			p.mu.Unlock()
			return
		}
		kind := p.kind
		p.mu.Unlock()
		s, err := pydriver.Start(ctx, p.runner, kind.Spec, kind.Preload)
		if err != nil {
			if ctx.Err() == nil {
				p.log.WarnContext(ctx, "start a warm sandbox", slog.Any("error", err), slog.Duration("next", wait))
			}
			pause(ctx, wait)
			wait = min(2*wait, lastRetry)
			continue
		}
		wait = firstRetry
		if !p.add(kind, s) {
			p.destroy(ctx, s)
		}
	}
}

// add keeps s, if it is still wanted.
func (p *Pool) add(kind Kind, s *pydriver.Process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || kind.Digest != p.kind.Digest || len(p.warm) >= p.want {
		return false
	}
	p.warm = append(p.warm, s)
	return true
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (p *Pool) destroy(ctx context.Context, s *pydriver.Process) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := s.Destroy(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.log.WarnContext(ctx, "destroy a warm sandbox", slog.Any("error", err))
	}
}
