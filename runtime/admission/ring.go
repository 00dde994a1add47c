package admission

import (
	"iter"
	"slices"
)

// A ring is a line that is served in turns: each of its rings once, then each
// again. The innermost rings are lines of places. Its zero value is empty.
type ring struct {
	key    string
	count  int     // of places
	rings  []*ring // none is empty
	places []*place
}

// path says where p is: by its principal; by whether its conversation has a
// sandbox, for a call in one is short and is not to wait for many starts; and by
// its conversation.
func (p *place) path() []string {
	kind := "new"
	if p.seat != nil {
		kind = "kept"
	}
	return []string{p.request.Principal, kind, p.request.Conversation}
}

// add puts p at the end of the line at path.
func (r *ring) add(p *place, path []string) {
	r.count++
	if len(path) == 0 {
		r.places = append(r.places, p)
		return
	}
	i := r.index(path[0])
	if i < 0 {
		i = len(r.rings)
		r.rings = append(r.rings, &ring{key: path[0]})
	}
	r.rings[i].add(p, path[1:])
}

// has says whether p is there.
func (r *ring) has(p *place, path []string) bool {
	if len(path) == 0 {
		return slices.Contains(r.places, p)
	}
	i := r.index(path[0])
	return i >= 0 && r.rings[i].has(p, path[1:])
}

// remove takes p away. If it was served, the turn of what it belongs to comes last
// now.
// Preconditions: p is there.
func (r *ring) remove(p *place, path []string, served bool) {
	r.count--
	if len(path) == 0 {
		r.places = slices.DeleteFunc(r.places, func(q *place) bool { return q == p })
		return
	}
	i := r.index(path[0])
	child := r.rings[i]
	child.remove(p, path[1:], served)
	if child.count == 0 || served {
		r.rings = slices.Delete(r.rings, i, i+1)
	}
	if child.count > 0 && served {
		r.rings = append(r.rings, child)
	}
}

func (r *ring) index(key string) int {
	return slices.IndexFunc(r.rings, func(c *ring) bool { return c.key == key })
}

// first returns whose turn it is, nil if nobody waits.
func (r *ring) first() *place {
	for p := range r.all() {
		return p
	}
	return nil
}

// all yields, in the order of turns, the first place of each innermost ring.
func (r *ring) all() iter.Seq[*place] {
	return func(yield func(*place) bool) { r.each(yield) }
}

func (r *ring) each(yield func(*place) bool) bool {
	if len(r.places) > 0 {
		return yield(r.places[0])
	}
	for _, c := range r.rings {
		if !c.each(yield) {
			return false
		}
	}
	return true
}

// longest returns the ring in which most wait, nil if there is none.
func (r *ring) longest() *ring {
	if len(r.rings) == 0 {
		return nil
	}
	return slices.MaxFunc(r.rings, func(a, b *ring) int { return a.count - b.count })
}

// last returns the place whose turn is last, or nearly.
func (r *ring) last() *place {
	for len(r.places) == 0 {
		r = r.rings[len(r.rings)-1]
	}
	return r.places[len(r.places)-1]
}
