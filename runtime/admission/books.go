package admission

import (
	"fmt"
	"slices"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/policy/human"
)

// A Seat is a sandbox in the books: from before it is started until after it has
// ended, while a call runs in it and while it rests.
type Seat struct {
	gate    *Gate
	request Request       // gate.mu; of the call that runs
	began   time.Duration // gate.mu
	runs    bool          // gate.mu
	spare   bool          // it is nobody's
	gone    bool          // gate.mu
}

// Rest says that the call is over and the sandbox rests. It returns false if the
// room is wanted by others: then the sandbox has to end, and the seat be left.
func (s *Seat) Rest() bool {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	s.rest()
	wanted := g.wanted()
	g.serve()
	g.watch()
	return !wanted
}

// Leave says that the sandbox has ended. Leaving twice is no error.
func (s *Seat) Leave() {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	s.leave()
	g.serve()
}

// rest moves the seat from those in which calls run to those that rest.
// Preconditions: gate.mu is held.
func (s *Seat) rest() {
	if !s.runs {
		return
	}
	s.runs = false
	s.gate.running.less(s)
	s.gate.resting++
}

// leave takes the seat out of the books.
// Preconditions: gate.mu is held.
func (s *Seat) leave() {
	if s.gone {
		return
	}
	s.rest()
	s.gone = true
	s.gate.resting--
	if !s.spare {
		s.gate.boxes--
	}
}

// running is what all calls that run ask for, and how long calls take.
type running struct {
	zero   time.Time
	count  int
	memory int64
	cpus   float64
	began  time.Duration // the sum of when they began, since zero
	took   time.Duration // a mean in which late ones weigh more
}

func (r *running) more(s *Seat, request Request) {
	s.request, s.began = request, time.Since(r.zero)
	r.count++
	r.memory += request.Memory
	r.cpus += request.CPUs
	r.began += s.began
}

func (r *running) less(s *Seat) {
	r.count--
	r.memory -= s.request.Memory
	r.cpus -= s.request.CPUs
	r.began -= s.began
	took := time.Since(r.zero) - s.began
	if r.took == 0 {
		r.took = took
	}
	r.took += (took - r.took) / 8
	if r.count == 0 {
		r.cpus = 0 // whatever rounding left
	}
}

// mean is how long a call takes: as those did that are over, or as those already
// have that run.
func (r *running) mean() time.Duration {
	if r.count == 0 {
		return r.took
	}
	return max(r.took, time.Since(r.zero)-r.began/time.Duration(r.count))
}

// now returns the capacity of this moment.
func (g *Gate) now() Capacity {
	if g.capacity == nil {
		return Capacity{}
	}
	return g.capacity()
}

// A shortage says what is lacking for a call.
type shortage struct{ memory, host, cpus, sandboxes bool }

func (s shortage) any() bool { return s != shortage{} }

// short returns what p lacks, if these run, and so many sandboxes rest beside its
// own.
// Preconditions: g.mu is held.
func (g *Gate) short(c Capacity, p *place, run running, resting int) (s shortage) {
	r := p.request
	s.sandboxes = p.seat == nil && c.Sandboxes > 0 && g.boxes >= c.Sandboxes
	if run.count == 0 {
		return s // one may always run
	}
	s.memory = c.Memory > 0 && run.memory+int64(resting)*Idle+r.Memory > c.Memory
	s.cpus = c.CPUs > 0 && run.cpus+r.CPUs > c.CPUs+1e-9 // which rounding is less than
	s.host = g.headroom != nil && g.look().left(run.memory, g.resting) < r.Memory
	return s
}

// beside returns how many sandboxes rest beside p's own.
func (g *Gate) beside(p *place) int {
	if p.seat == nil {
		return g.resting
	}
	return g.resting - 1
}

// helped says whether the end of sandboxes that rest would let p in, and of which.
// Besides the first in line, the next few may lack a sandbox alone: to end one
// takes its time.
// Preconditions: g.mu is held.
func (g *Gate) helped(p *place) (bool, Need) {
	before := slices.Index(g.front(), p)
	if before < 0 || g.beside(p) == 0 {
		return false, Need{}
	}
	c := g.now()
	with := g.short(c, p, g.running, g.beside(p))
	if with.sandboxes && g.boxes-g.evicting+before < c.Sandboxes {
		return false, Need{} // it is about to get one
	}
	n := Need{Sandbox: with.sandboxes, Brisk: g.late(p)}
	if before == 0 {
		without := g.short(c, p, g.running, 0)
		without.sandboxes = false
		return with.any() && !without.any(), n
	}
	run := g.running // and those before it, who are as good as in
	run.count += before
	run.memory += int64(before) * p.request.Memory
	run.cpus += float64(before) * p.request.CPUs
	return g.short(c, p, run, g.beside(p)) == shortage{sandboxes: true}, n
}

// front returns the first few in line.
// Preconditions: g.mu is held.
func (g *Gate) front() []*place {
	const most = 4
	var first []*place
	for p := range g.line.all() {
		if first = append(first, p); len(first) == most {
			break
		}
	}
	return first
}

// wanted says whether a sandbox that begins to rest is to end at once, for a call
// that has waited for long.
// Preconditions: g.mu is held.
func (g *Gate) wanted() bool {
	first := g.line.first()
	if first == nil || !g.late(first) {
		return false
	}
	helps, _ := g.helped(first)
	return helps
}

// serve lets in whoever may. The first who may not look whether eviction helps.
// Preconditions: g.mu is held.
func (g *Gate) serve() {
	c := g.now()
	for p := g.next(c); p != nil; p = g.next(c) {
		g.line.remove(p, p.path(), true)
		p.in <- g.admit(p)
	}
	for _, p := range g.front() {
		select {
		case p.look <- struct{}{}:
		default: // it is about to look
		}
	}
	if g.line.count > 0 {
		return
	}
	for len(g.spares) > 0 && g.spacious(c) {
		g.resting++
		g.spares[0].in <- &Seat{gate: g, spare: true}
		g.spares = g.spares[1:]
	}
}

// next returns who is to be let in now, nil for nobody: the first in line, or
// somebody behind those for whom there is no room, unless one of them has waited
// so long for memory or processors that nobody passes it any more.
// Preconditions: g.mu is held.
func (g *Gate) next(c Capacity) *place {
	const most = 64 // of which it is looked at
	seen := 0
	for p := range g.line.all() {
		s := g.short(c, p, g.running, g.beside(p))
		if !s.any() {
			return p
		}
		s.sandboxes = false // who has a sandbox takes none from it
		if seen++; seen == most || s.any() && g.late(p) {
			return nil
		}
	}
	return nil
}

// admit counts p's call.
// Preconditions: g.mu is held.
func (g *Gate) admit(p *place) *Seat {
	s := p.seat
	if s == nil {
		s = &Seat{gate: g}
		g.boxes++
	} else {
		g.resting--
	}
	s.runs = true
	g.running.more(s, p.request)
	return s
}

// fits says whether so many sandboxes may rest. Beside a call that runs alone
// they may, for then nothing would rest where a call may take all there is.
// Preconditions: g.mu is held.
func (g *Gate) fits(c Capacity, resting int) bool {
	rest := int64(resting) * Idle
	if g.running.count > 1 {
		rest += g.running.memory
	}
	return c.Memory <= 0 || rest <= c.Memory
}

// spacious says whether one more sandbox may be started that nobody has asked
// for. The host is to have so much left that this one does not have to end for it.
// Preconditions: g.mu is held.
func (g *Gate) spacious(c Capacity) bool {
	return g.fits(c, g.resting+1) && (g.headroom == nil || g.look().left(g.running.memory, g.resting) >= margin)
}

// busy is what p's caller is told.
// Preconditions: g.mu is held, p is in line or about to be.
func (g *Gate) busy(p *place) error {
	c := g.now()
	full := fmt.Sprintf("this server is at its capacity (%s, %s of memory)",
		human.Plural(int64(g.running.count), "call"), human.Bytes(g.running.memory))
	switch s := g.short(c, p, g.running, g.beside(p)); {
	case s.host && !s.memory && !s.cpus:
		full = "others have taken this server's memory"
	case s.sandboxes && !s.memory && !s.cpus:
		full = fmt.Sprintf("all %d sandboxes of this server are in use", c.Sandboxes)
	}
	waiting := g.line.count
	after := g.estimate(waiting)
	verb := "wait"
	if waiting == 1 {
		verb = "waits"
	}
	return fault.New(fault.Busy, "%s; %s %s; call again in about %d s",
		full, human.Plural(int64(waiting), "call"), verb, int(after.Seconds())).After(after)
}

// estimate is when a call that comes behind so many others may run: whole seconds.
// Preconditions: g.mu is held.
func (g *Gate) estimate(waiting int) time.Duration {
	const least, most = time.Second, time.Minute
	each := g.running.mean() / time.Duration(max(g.running.count, 1))
	if each > most {
		return most
	}
	d := each * time.Duration(waiting+1)
	return min(max(least, (d+time.Second-1).Truncate(time.Second)), most)
}
