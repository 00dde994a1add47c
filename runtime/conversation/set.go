package conversation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/pool"
)

// maxKnown bounds the conversations that a server knows at a time; past it the
// one longest unused, that has no sandbox, is forgotten.
const maxKnown = 10_000

// brisk is how long the sandbox of a conversation that has made more than one
// call is spared after the last: those that come only once are not to drive each
// other's neighbours out.
const brisk = time.Second

// Options are what a Set works with.
type Options struct {
	Pool *pool.Pool
	// Gate lets calls in; nil lets in all. The set ends sandboxes for it that no
	// call uses.
	Gate *admission.Gate
	Log  *slog.Logger
}

// A Set is all conversations of a server. Its methods may be called from
// several goroutines.
type Set struct {
	pool   *pool.Pool
	gate   *admission.Gate
	log    *slog.Logger
	ctx    context.Context //nolint:containedctx // the set's own life, which ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	byID   map[string]*Conversation            // mu
	byHint map[[sha256.Size]byte]*Conversation // mu
}

// NewSet returns an empty set, which lives until Close or the end of ctx.
func NewSet(ctx context.Context, o Options) *Set {
	ctx, cancel := context.WithCancel(ctx)
	if o.Gate == nil {
		o.Gate = admission.New(ctx, admission.Options{})
	}
	s := &Set{
		pool: o.Pool, gate: o.Gate, log: o.Log, ctx: ctx, cancel: cancel,
		byID: map[string]*Conversation{}, byHint: map[[sha256.Size]byte]*Conversation{},
	}
	o.Gate.EvictBy(s.yield)
	return s
}

// New starts a conversation of principal. Its id is 130 random bits.
func (s *Set) New(principal string) *Conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.new(principal)
}

func (s *Set) new(principal string) *Conversation {
	s.forget()
	c := &Conversation{ID: "c-" + strings.ToLower(rand.Text()), Principal: principal, set: s, used: time.Now()}
	s.byID[c.ID] = c
	return c
}

// ByID returns the conversation of that id. One of another principal and one
// that never was get the same answer.
func (s *Set) ByID(principal, id string) (*Conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[id]
	if c == nil || c.Principal != principal {
		return nil, fault.New(fault.NotFound,
			`no such conversation of yours; leave "conversation" out to go on in the present one, or pass "new" to start another`)
	}
	return c, nil
}

// ByHint returns the conversation of principal that goes with a hint, any
// string that a host sends; the first time it starts one. Two principals with
// the same hint never meet.
func (s *Set) ByHint(principal, hint string) *Conversation {
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q", principal, hint)) // whatever is in them, the border stays
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byHint[key]
	if c == nil || s.byID[c.ID] == nil {
		c = s.new(principal)
		s.byHint[key] = c
	}
	return c
}

// Recent tells of the principal's conversations, the last used first, at most n.
func (s *Set) Recent(principal string, n int) []Info {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.byID))
	s.mu.Unlock()
	var infos []Info
	for _, c := range all {
		if c.Principal == principal {
			infos = append(infos, c.info())
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return b.Used.Compare(a.Used) })
	return infos[:min(n, len(infos))]
}

// forget makes room for one more conversation.
// Preconditions: s.mu is held.
func (s *Set) forget() {
	if len(s.byID) < maxKnown {
		return
	}
	var oldest *Conversation
	var since time.Time
	for _, c := range s.byID {
		used, unused := c.unused()
		if unused && (oldest == nil || used.Before(since)) {
			oldest, since = c, used
		}
	}
	if oldest == nil {
		return
	}
	delete(s.byID, oldest.ID)
	maps.DeleteFunc(s.byHint, func(_ [sha256.Size]byte, c *Conversation) bool { return c == oldest })
}

// yield ends a sandbox that no call uses, and waits for that: one of a
// conversation that is not in the middle of its work, else one that is kept warm
// for nobody, else any.
func (s *Set) yield(ctx context.Context, n admission.Need) bool {
	return s.evictOldest(ctx, true) || !n.Sandbox && s.pool.Evict(ctx) || n.Brisk && s.evictOldest(ctx, false)
}

// evictOldest ends the sandbox that is longest idle, of those of conversations
// that are not brisk if these are to be spared; false if there is none.
func (s *Set) evictOldest(ctx context.Context, spare bool) bool {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.byID))
	s.mu.Unlock()
	var oldest *Conversation
	var box *box
	var since time.Time
	for _, c := range all {
		if spare && c.isBrisk() {
			continue
		}
		if b, used := c.idleSince(); b != nil && (oldest == nil || used.Before(since)) {
			oldest, box, since = c, b, used
		}
	}
	if oldest == nil {
		return false
	}
	oldest.dropIdle(ctx, box) // or a call took it meanwhile: look again
	return true
}

// Close ends all sandboxes and waits for that, also when ctx has ended.
// Preconditions: no call runs.
func (s *Set) Close(ctx context.Context) {
	s.cancel()
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.byID))
	s.mu.Unlock()
	for _, c := range all {
		c.touch() // waits for an eviction that began before
	}
	s.work.Wait()
	for _, c := range all {
		if box, _ := c.idleSince(); box != nil {
			c.drop(ctx, box)
		}
	}
}
