package admission

import (
	"math"
	"time"
)

// A Headroom is what is left of the host, in bytes.
type Headroom struct {
	// Total is all memory that the server and its sandboxes could have; 0 if nothing
	// is known of the host.
	Total int64
	// Available is what they could take more.
	Available int64
	// Used is what sandboxes have taken, those that rest too, and what they were
	// forked from; 0 if unknown.
	Used int64
}

const (
	// leastFloor is what is left to the host at least.
	leastFloor = 256 << 20
	// margin is what has to be left beyond that before sandboxes are started that
	// nobody has asked for.
	margin = 16 * Idle
	// fresh is how long what was seen of the host is believed.
	fresh = 200 * time.Millisecond
	// every is how often the host is looked at while something could be evicted.
	every = time.Second
)

// left is what is there beyond what the host needs itself, a twentieth of it, and
// beyond what calls may still take whose limits are so much together, while so
// many sandboxes rest. It is negative when the host is short.
func (h Headroom) left(limits int64, resting int) int64 {
	if h.Total == 0 {
		return math.MaxInt64
	}
	floor := max(h.Total/20, leastFloor)
	used := max(h.Used-int64(resting)*Idle, 0)
	return h.Available - floor - max(limits-used, 0)
}

// look returns the headroom, not older than fresh.
// Preconditions: g.mu is held, g.headroom is not nil.
func (g *Gate) look() Headroom {
	if g.seen.IsZero() || time.Since(g.seen) >= fresh {
		g.left, g.seen = g.headroom(), time.Now()
	}
	return g.left
}

// excess says that sandboxes that rest have to end, and which: the host is short
// of memory, or they and the calls that run are more than may be.
// Preconditions: g.mu is held.
func (g *Gate) excess() (Need, bool) {
	if g.resting == 0 {
		return Need{}, false
	}
	c := g.now()
	short := g.headroom != nil && g.look().left(g.running.memory, g.resting) < 0
	if short || !g.fits(c, g.resting) {
		return Need{Brisk: true}, true
	}
	return Need{Brisk: true, Sandbox: true}, c.Sandboxes > 0 && g.boxes > c.Sandboxes
}

// watch looks at the host from time to time, as long as there is something to
// evict or somebody waits.
// Preconditions: g.mu is held.
func (g *Gate) watch() {
	if g.watching || g.ctx.Err() != nil || !g.eventful() {
		return
	}
	g.watching = true
	g.work.Go(g.watcher)
}

// eventful says whether a look at the host may change anything.
// Preconditions: g.mu is held.
func (g *Gate) eventful() bool {
	return (g.headroom != nil || g.capacity != nil) && (g.resting > 0 || g.line.count > 0 || len(g.spares) > 0)
}

func (g *Gate) watcher() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		}
		g.relieve()
		g.mu.Lock()
		g.serve() // there may be more room than before
		g.watching = g.eventful()
		goOn := g.watching
		g.mu.Unlock()
		if !goOn {
			return
		}
	}
}

// relieve evicts what rests while that is too much.
func (g *Gate) relieve() {
	for {
		g.mu.Lock()
		g.seen = time.Time{} // what was evicted shows
		n, excess := g.excess()
		g.mu.Unlock()
		if !excess || g.ctx.Err() != nil || !g.evict(g.ctx, n) {
			return
		}
	}
}
