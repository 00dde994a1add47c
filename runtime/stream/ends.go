package stream

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// ends holds the two ends of a text that may be longer than there is memory for.
type ends struct {
	limit int
	size  int64 // of the whole text
	// lost is where the bytes that are still here begin again: those from
	// limit/2 up to lost are gone.
	lost int64
	// head holds the first limit/2 bytes.
	head []byte
	// tail ends with those from lost on, never more than limit.
	tail []byte
}

func newEnds(limit int) ends {
	return ends{limit: limit, lost: int64(limit / 2)}
}

// add adds p to the end of the text.
func (e *ends) add(p []byte) {
	e.size += int64(len(p))
	if n := min(len(p), e.limit/2-len(e.head)); n > 0 {
		e.head = append(e.head, p[:n]...)
		p = p[n:]
	}
	switch {
	case len(p) >= e.limit:
		e.tail = append(e.tail[:0], p[len(p)-e.limit:]...)
	case len(e.tail)+len(p) > 2*e.limit:
		n := copy(e.tail, e.tail[len(e.tail)-e.limit:])
		e.tail = append(e.tail[:n], p...)
	default:
		e.tail = append(e.tail, p...)
	}
	// What tail holds beyond this is there by accident of how the bytes came.
	e.lost = max(e.lost, e.size-int64(e.limit))
}

// truncate cuts the text to size bytes. It may cut into what is gone.
func (e *ends) truncate(size int64) {
	switch {
	case size <= int64(e.limit/2):
		e.head, e.tail = e.head[:size], e.tail[:0]
		e.lost = int64(e.limit / 2)
	case size >= e.lost:
		e.tail = e.tail[:len(e.tail)-int(e.size-size)]
	default:
		e.tail = e.tail[:0]
		e.lost = size
	}
	e.size = size
}

// here returns the bytes from lost on.
func (e *ends) here() []byte {
	return e.tail[len(e.tail)-int(max(e.size-e.lost, 0)):]
}

// from returns the bytes from at on, and whether they are all still here. They
// are valid until the next change.
func (e *ends) from(at int64) ([]byte, bool) {
	near := e.here()
	first := e.size - int64(len(near))
	switch {
	case at >= first:
		return near[at-first:], true
	case !e.intact():
		return nil, false
	case len(near) == 0:
		return e.head[at:], true
	}
	return slices.Concat(e.head[at:], near), true
}

// lineBefore returns where the line starts that ends before at, and whether
// there is one that is all still here. At at a line starts.
func (e *ends) lineBefore(at int64) (int64, bool) {
	near := e.here()
	first := e.size - int64(len(near))
	if at > first {
		if i := bytes.LastIndexByte(near[:at-1-first], '\n'); i >= 0 {
			return first + int64(i) + 1, true
		}
	}
	if at == 0 || !e.intact() {
		return 0, false
	}
	return int64(bytes.LastIndexByte(e.head[:min(at-1, first)], '\n')) + 1, true
}

// intact tells whether nothing is gone.
func (e *ends) intact() bool { return e.lost == int64(e.limit/2) }

// lastRune returns the length of the text's last rune, 0 if that is gone.
func (e *ends) lastRune() int {
	near := e.here()
	if len(near) < utf8.UTFMax && e.intact() {
		var room [2 * utf8.UTFMax]byte
		near = append(append(room[:0], e.head[max(len(e.head)-utf8.UTFMax, 0):]...), near...)
	}
	_, n := utf8.DecodeLastRune(near)
	return n
}

// parts returns the two ends to show: all of the text in them if that is here
// and within the limit, else at most half of the limit each, cut where a line or
// at least a rune begins.
func (e *ends) parts() (head, tail []byte, whole bool) {
	head, tail = e.head, e.here()
	if e.intact() && e.size <= int64(e.limit) {
		return head, tail, true
	}
	if most := e.limit - e.limit/2; len(tail) > most {
		tail = tail[len(tail)-most:]
	}
	return cutEnd(head), cutStart(tail), false
}

// cutEnd cuts p after its last line, or after its last rune if the line would
// take a quarter of it.
func cutEnd(p []byte) []byte {
	if i := bytes.LastIndexByte(p, '\n') + 1; i > 0 && len(p)-i <= len(p)/4 {
		return p[:i]
	}
	for len(p) > 0 {
		if r, n := utf8.DecodeLastRune(p); r != utf8.RuneError || n > 1 {
			break
		}
		p = p[:len(p)-1]
	}
	return p
}

// cutStart is cutEnd for the start of p.
func cutStart(p []byte) []byte {
	if i := bytes.IndexByte(p, '\n') + 1; i > 0 && i <= len(p)/4 {
		return p[i:]
	}
	for len(p) > 0 && !utf8.RuneStart(p[0]) {
		p = p[1:]
	}
	return p
}
