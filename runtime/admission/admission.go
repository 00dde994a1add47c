// Package admission decides which calls may run, and which have to wait, so that
// those that run never ask for more memory or processors together than there
// are. It keeps books: it starts no sandbox and ends none. Whoever waits does so
// in a line that is served in turns, of principals first and of the
// conversations of each then, for a bounded time.
package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/policy/human"
)

const (
	// patience is how long a call waits. What it takes to start a sandbox comes on
	// top; together that is less than a person waits.
	patience = 8 * time.Second
	// maxWaiting bounds the line: more calls than can be carried out within
	// patience would wait for nothing. Two processors start some forty sandboxes a
	// second.
	maxWaiting = 256
	// look is how soon a call that waits looks again whether it may evict what it
	// had to spare.
	look = 250 * time.Millisecond
)

// Idle is what a sandbox counts, in bytes, that no call runs in: its first
// process has a few MB of its own, and the kernel needs some for its namespaces,
// mounts and control groups.
const Idle = 16 << 20

// A Capacity says how much there is. Zero stands for no bound.
type Capacity struct {
	// Memory is for the limits of all calls that run, and sandboxes that rest.
	Memory int64
	// Largest is what a call may ask for that runs alone, if that is more.
	Largest int64
	// CPUs is for the calls that run.
	CPUs float64
	// Sandboxes is how many conversations may have at a time.
	Sandboxes int
}

// A Request is what a call asks for.
type Request struct {
	Principal, Conversation string
	// Memory and CPUs are the limits of its sandbox.
	Memory int64
	CPUs   float64
}

// A Need is what has to be evicted.
type Need struct {
	// Sandbox: only that of a conversation is of use.
	Sandbox bool
	// Brisk: also one of a conversation in the middle of its work.
	Brisk bool
}

// Options are what a Gate works with; all may be left out.
type Options struct {
	// Capacity says how much there is at this moment.
	Capacity func() Capacity
	// Headroom says what is left of the host.
	Headroom func() Headroom
	// Patience is how long a call waits; 0 stands for eight seconds.
	Patience time.Duration
}

// A Gate keeps the books. Its methods may be called from several goroutines.
type Gate struct {
	capacity func() Capacity
	headroom func() Headroom
	patience time.Duration
	ctx      context.Context //nolint:containedctx // the gate's own life, which ends with Close
	cancel   context.CancelFunc
	work     sync.WaitGroup

	// evict ends the sandbox that is longest idle, of those that the need allows;
	// false if there is none.
	evict func(ctx context.Context, n Need) bool

	mu       sync.Mutex
	line     ring     // mu; calls that wait
	spares   []*place // mu; those that wait to start a sandbox that nobody asked for
	running  running  // mu
	boxes    int      // mu; sandboxes of conversations
	resting  int      // mu; sandboxes that no call runs in, whosever they are
	evicting int      // mu; sandboxes of conversations that are being ended for calls
	left     Headroom // mu; as it was last seen
	seen     time.Time
	watching bool // mu
}

// New returns a gate, which lives until Close or the end of ctx.
func New(ctx context.Context, o Options) *Gate {
	ctx, cancel := context.WithCancel(ctx)
	g := &Gate{capacity: o.Capacity, headroom: o.Headroom, patience: o.Patience, ctx: ctx, cancel: cancel}
	if g.patience == 0 {
		g.patience = patience
	}
	g.running.zero = time.Now()
	g.evict = func(context.Context, Need) bool { return false }
	return g
}

// EvictBy says who ends sandboxes that rest when a call needs their room. It
// returns when that is done, and false if there is nothing to end.
// Preconditions: nothing was asked of the gate yet.
func (g *Gate) EvictBy(evict func(ctx context.Context, n Need) bool) { g.evict = evict }

// Close waits for what the gate does by itself.
func (g *Gate) Close() {
	g.mu.Lock()
	g.cancel()
	g.mu.Unlock()
	g.work.Wait()
}

// A place is a caller's who waits.
type place struct {
	request Request
	seat    *Seat // that of its sandbox, which rests; nil if it has none
	since   time.Time
	in      chan *Seat    // gets the seat
	refused chan error    // gets the reason, if it has to leave
	look    chan struct{} // gets a word when eviction may help
	later   chan struct{} // gets a word when there was nothing to evict
	evicts  bool          // gate.mu; something is being evicted for it
}

func newPlace(r Request, s *Seat) *place {
	return &place{
		request: r, seat: s, since: time.Now(),
		in: make(chan *Seat, 1), refused: make(chan error, 1), look: make(chan struct{}, 1), later: make(chan struct{}, 1),
	}
}

// late says that p has waited so long that others have to stand back.
func (g *Gate) late(p *place) bool { return time.Since(p.since) >= g.patience/2 }

// Waiting returns how many calls wait.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.line.count
}

// Enter waits until the call may run, and counts it, and its sandbox if it has
// none: s is the seat of the one that it has, which rests, and then is its own.
// The seat that it returns is to be given back by Rest or Leave. An error is a
// fault, or the cause of the end of ctx; then a seat that was given still rests.
func (g *Gate) Enter(ctx context.Context, r Request, s *Seat) (*Seat, error) {
	p := newPlace(r, s)
	if err := g.join(p); err != nil {
		return nil, err
	}
	limit := time.NewTimer(g.patience)
	defer limit.Stop()
	var again <-chan time.Time
	for {
		select {
		case s := <-p.in:
			return s, nil
		default:
		}
		select {
		case s := <-p.in:
			return s, nil
		case err := <-p.refused:
			return nil, err
		case <-p.look:
			g.makeRoom(p)
		case <-again:
			g.makeRoom(p)
		case <-p.later:
			again = time.After(look)
		case <-limit.C:
			if err := g.giveUp(p); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			if g.giveUp(p) == nil {
				g.undo(p, <-p.in)
			}
			return nil, context.Cause(ctx)
		}
	}
}

// join puts p into the line, or says why it cannot be there.
func (g *Gate) join(p *place) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.now()
	if most := max(c.Memory, c.Largest); c.Memory > 0 && p.request.Memory > most {
		return fault.New(fault.Unavailable,
			"a call may use %s of memory here, and there is %s for all of them; the administrator has to lower sandbox.memory or raise pool.memory",
			human.Bytes(p.request.Memory), human.Bytes(most))
	}
	if g.line.count >= maxWaiting && !g.displace(p) {
		return g.busy(p)
	}
	g.line.add(p, p.path())
	g.serve()
	g.watch()
	return nil
}

// displace makes the line shorter by the last call of the principal who has most
// in it, if that is another than p's.
func (g *Gate) displace(p *place) bool {
	longest := g.line.longest()
	if longest == nil || longest.key == p.request.Principal {
		return false
	}
	last := longest.last()
	last.refused <- g.busy(last)
	g.line.remove(last, last.path(), false)
	return true
}

// giveUp takes p out of the line, and returns what its caller is told; nil if it
// was let in meanwhile.
func (g *Gate) giveUp(p *place) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case err := <-p.refused:
		return err
	default:
	}
	if !g.line.has(p, p.path()) {
		return nil
	}
	err := g.busy(p)
	g.line.remove(p, p.path(), false)
	g.serve()
	return err
}

// undo gives back what came too late.
func (g *Gate) undo(p *place, s *Seat) {
	if p.seat == nil {
		s.Leave()
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.rest()
	g.serve()
	g.watch()
}

// Spare waits until there is room for a sandbox that nobody has asked for yet,
// while no call waits. It counts as one that rests until the seat is left.
func (g *Gate) Spare(ctx context.Context) (*Seat, error) {
	p := newPlace(Request{}, nil)
	g.mu.Lock()
	g.spares = append(g.spares, p)
	g.serve()
	g.watch()
	g.mu.Unlock()
	select {
	case s := <-p.in:
		return s, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case s := <-p.in:
		s.leave()
		g.serve()
	default:
		g.spares = slices.DeleteFunc(g.spares, func(q *place) bool { return q == p })
	}
	return nil, context.Cause(ctx)
}

// makeRoom begins to evict for p, if that helps and is not done already. p's
// caller does not wait for it: what is to end may take longer than a call waits.
func (g *Gate) makeRoom(p *place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	helps, n := g.helped(p)
	if !helps || p.evicts || g.ctx.Err() != nil {
		return
	}
	p.evicts = true
	if n.Sandbox {
		g.evicting++
	}
	g.work.Go(func() {
		done := g.evict(g.ctx, n)
		g.mu.Lock()
		defer g.mu.Unlock()
		p.evicts = false
		if n.Sandbox {
			g.evicting--
		}
		if done {
			g.serve() // p looks again, and those who counted on it
			return
		}
		select {
		case p.later <- struct{}{}:
		default: // it knows already
		}
	})
}
