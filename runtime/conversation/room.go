package conversation

import (
	"context"
	"slices"
	"time"

	"cloche.dev/cloche/policy/fault"
)

const (
	// patience is how long a call waits for a sandbox while all are in use. What it
	// takes to start one comes on top.
	patience = 8 * time.Second
	// brisk is how long the sandbox of a conversation that has made more than one
	// call is spared after the last: those that come only once are not to drive
	// each other's neighbours out.
	brisk = time.Second
)

// A place is a call's in the line of those that wait for a sandbox.
type place struct{ look chan struct{} }

// admit counts one more sandbox, which the caller is to start, in the order of
// asking. Where there are as many as may be the one longest idle is ended, a
// brisk conversation's only when half the patience is over; where all are in use
// it waits.
func (s *Set) admit(ctx context.Context) error {
	p := s.queue()
	defer s.leave(p)
	late, again := time.NewTimer(s.patience), time.NewTicker(brisk/4)
	defer late.Stop()
	defer again.Stop()
	for begin := time.Now(); ; {
		limit := s.max()
		first, in := s.enter(p, limit)
		if in {
			return nil
		}
		if first && s.evictOldest(ctx, time.Since(begin) < s.patience/2) {
			continue
		}
		select {
		case <-p.look:
		case <-again.C: // what was brisk may be idle by now
		case <-late.C:
			return fault.New(fault.Busy, "all %d sandboxes of this server are in use; call again in a few seconds", limit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// queue takes a place at the end of the line.
func (s *Set) queue() *place {
	p := &place{look: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = append(s.line, p)
	return p
}

// enter counts one more sandbox if p is the first in line and there is room.
func (s *Set) enter(p *place, limit int) (first, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.line[0] == p
	if in = first && s.boxes < limit; in {
		s.boxes++
	}
	return first, in
}

// leave gives up a place in line.
func (s *Set) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = slices.DeleteFunc(s.line, func(q *place) bool { return q == p })
	s.next()
}

// next has the first in line look whether there is room.
// Preconditions: s.mu is held.
func (s *Set) next() {
	if len(s.line) == 0 {
		return
	}
	select {
	case s.line[0].look <- struct{}{}:
	default: // it is about to look
	}
}

// idled says that a sandbox is in use no more.
func (s *Set) idled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next()
}
