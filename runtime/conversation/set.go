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
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/pydriver"
)

// maxKnown bounds the conversations that a server knows at a time; past it the
// one longest unused, that has no sandbox, is forgotten.
const maxKnown = 10_000

// Options are what a Set works with.
type Options struct {
	Pool *pool.Pool
	// MaxSandboxes says how many conversations may have a sandbox at a time.
	MaxSandboxes func() int
	Log          *slog.Logger
}

// A Set is all conversations of a server. Its methods may be called from
// several goroutines.
type Set struct {
	pool   *pool.Pool
	max    func() int
	log    *slog.Logger
	ctx    context.Context //nolint:containedctx // the set's own life, which ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	byID   map[string]*Conversation            // mu
	byHint map[[sha256.Size]byte]*Conversation // mu
	boxes  int                                 // mu; sandboxes that conversations have
	line   []*place                            // mu; calls that wait for one

	patience time.Duration
}

// NewSet returns an empty set, which lives until Close or the end of ctx.
func NewSet(ctx context.Context, o Options) *Set {
	ctx, cancel := context.WithCancel(ctx)
	return &Set{
		pool: o.Pool, max: o.MaxSandboxes, log: o.Log, ctx: ctx, cancel: cancel, patience: patience,
		byID: map[string]*Conversation{}, byHint: map[[sha256.Size]byte]*Conversation{},
	}
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

// start takes a sandbox for a conversation.
func (s *Set) start(ctx context.Context, kind pool.Kind) (*pydriver.Process, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	box, err := s.pool.Take(ctx, kind)
	if err != nil {
		s.ended()
	}
	return box, err
}

// ended counts the end of a conversation's sandbox.
func (s *Set) ended() {
	s.mu.Lock()
	s.boxes--
	s.next()
	s.mu.Unlock()
}

// evictOldest ends the sandbox that is longest idle, of those of conversations
// that are not brisk if these are to be spared; false if there is none.
func (s *Set) evictOldest(ctx context.Context, spare bool) bool {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.byID))
	s.mu.Unlock()
	var oldest *Conversation
	var box *pydriver.Process
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
