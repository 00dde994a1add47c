package pool

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// What is imported ahead of calls takes a second or more when a server starts.
// Until then sandboxes come without it, so that nobody waits; then they are
// replaced.

// ahead is what a shelf knows of that.
type ahead struct {
	ready   bool      // sandboxes that are started now have the modules
	waiting bool      // somebody waits for that
	next    time.Time // before it nobody waits again
	loaded  []string
	skipped map[string]string
}

// met takes note of a sandbox that has just been started. If it lacks modules,
// somebody waits for them, and then replaces what is warm without them.
// Preconditions: p.mu is held.
func (p *Pool) met(s *shelf, started *pydriver.Process) {
	if started.Complete() {
		s.ready = true
		_, s.loaded, s.skipped = started.Modules()
		return
	}
	s.ready = false
	source, ok := p.runner.(sandbox.Preloader)
	if !ok || s.waiting || p.closed || time.Now().Before(s.next) {
		return
	}
	s.waiting = true
	p.work.Go(func() { p.await(p.ctx, source, s) })
}

// await waits until sandboxes of a kind are started with their modules.
func (p *Pool) await(ctx context.Context, source sandbox.Preloader, s *shelf) {
	spec := s.kind.Spec
	spec.Preload = s.kind.Preload
	err := source.Preloaded(ctx, spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.waiting, s.next = false, time.Now().Add(firstRetry)
	if err != nil {
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "modules are not imported in advance", slog.Any("error", err))
		}
		return
	}
	s.ready = true
	for _, m := range slices.Clone(s.warm) {
		if !m.process.Complete() {
			p.discard(ctx, s, m)
		}
	}
	p.fill()
}

// Behind says whether a sandbox of a kind lacks modules that those have which are
// started now.
func (p *Pool) Behind(digest string, started *pydriver.Process) bool {
	if started.Complete() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelf(Kind{Digest: digest})
	return s != nil && s.ready
}

// Modules returns those that sandboxes of the kind that was asked for last have
// imported, and those that cannot be, with the reason; none while that is not
// known.
func (p *Pool) Modules() (loaded []string, skipped map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.shelves) == 0 {
		return nil, nil
	}
	s := p.shelves[len(p.shelves)-1]
	return slices.Clone(s.loaded), maps.Clone(s.skipped)
}
