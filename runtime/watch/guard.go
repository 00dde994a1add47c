package watch

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A Guard looks at the host this often: at one that has little memory left, the
// sooner the less it is; at one with none; and at one with enough. A processor
// opens a million files a second.
const (
	guardLeast = 10 * time.Millisecond
	guardSoon  = 100 * time.Millisecond
	guardLater = 500 * time.Millisecond
	// guardEnough is left of a host that has enough for one guardLater.
	guardEnough = 4 << 30
)

// A Guard looks after what no limit of a sandbox counts, and what one that is
// watched can hide: the files that all of the host may have open, what is unread
// in sockets, what is on its way through them, memory files that nobody has
// touched where they are mapped. When the host is short of memory or of files it
// ends the calls of sandboxes that may hold such. It looks into sandboxes only
// then. Its methods may be called from several goroutines.
type Guard struct {
	host *Host
	log  *slog.Logger
	once sync.Once
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	members map[*Member]bool // mu
}

// NewGuard starts a Guard, which ends with Close.
func NewGuard(h *Host, log *slog.Logger) *Guard {
	g := &Guard{host: h, log: log, stop: make(chan struct{}), done: make(chan struct{}), members: map[*Member]bool{}}
	go g.guard()
	return g
}

// Close ends the Guard and waits for that. Closing twice is no error.
func (g *Guard) Close() {
	g.once.Do(func() { close(g.stop) })
	<-g.done
}

// A Member is a sandbox that a Guard looks into.
type Member struct {
	g       *Guard
	watched bool
	open    func() (*inside, error)
	kills   atomic.Uint64

	mu      sync.Mutex // held while somebody looks
	removed bool       // mu
}

// Add adds a sandbox, which has a Watcher or else a control group that counts its
// memory; enter is that of Start. The caller removes it.
func (g *Guard) Add(watched bool, enter func(f func() error) error) *Member {
	return g.add(watched, func() (*inside, error) { return openInside(enter) })
}

func (g *Guard) add(watched bool, open func() (*inside, error)) *Member {
	m := &Member{g: g, watched: watched, open: open}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[m] = true
	return m
}

// Remove takes a sandbox from its Guard. Once it has returned nobody looks into
// the sandbox. Preconditions: every process of it was killed.
func (m *Member) Remove() {
	m.g.mu.Lock()
	delete(m.g.members, m)
	m.g.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removed = true
}

// Kills returns how often what runs in the sandbox was ended.
func (m *Member) Kills() uint64 { return m.kills.Load() }

func (g *Guard) guard() {
	defer close(g.done)
	timer := time.NewTimer(guardLater)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(g.check())
		case <-g.stop:
			return
		}
	}
}

// check looks once, and returns when to look again.
func (g *Guard) check() time.Duration {
	g.mu.Lock()
	var all []*Member
	for m := range g.members {
		all = append(all, m)
	}
	g.mu.Unlock()
	if len(all) == 0 {
		return guardLater
	}
	for _, m := range all {
		// Before each: once one was ended, the host may have enough for others.
		left, files := g.host.left(), g.host.manyFiles()
		switch {
		case left == 0, files:
		case left >= guardEnough:
			return guardLater
		default:
			return max(wait(left), guardLeast)
		}
		if err := m.end(files); err != nil {
			g.log.Error("look into a sandbox", slog.Any("error", err))
		}
	}
	return guardSoon
}

// end ends what runs in the sandbox if it may hold what nobody counts. Files are
// short if files says so: what is mapped is open, too.
func (m *Member) end(files bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.removed {
		return nil
	}
	in, err := m.open()
	if err != nil {
		return err
	}
	defer in.close()
	h, err := in.held()
	if err != nil {
		return err
	}
	hides := h.inSockets(in) || m.watched && (h.inMappings(in) || h.inNotes(in)) || files && h.inMappings(in)
	if !hides {
		return nil
	}
	m.kills.Add(1) // first: who learns of a process's end asks for the reason at once
	return in.endOthers(m.g.stop)
}
