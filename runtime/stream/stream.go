// Package stream turns an untrusted output stream, however long, into a bounded
// text: what a person at a terminal would finally see of it, its head and its
// tail.
package stream

import (
	"bytes"
	"slices"
	"strings"

	"cloche.dev/cloche/policy/human"
)

// A Capture takes in one stream. What it shows depends on the bytes alone, not
// on how they were split over calls of Write. It holds memory for a few times
// its limit, whatever comes. It is for one goroutine.
//
// Escape sequences are left out; those that move the cursor within the line or
// by lines, or erase from it on, are obeyed, as are a carriage return and a
// backspace: the text after them replaces what was there. The cursor goes up as
// far as a screen is high and the lines are still here. "\r\n" stays as it is. Bytes that are not
// UTF-8 become U+FFFD. Other control characters, those that change the
// direction of writing, and sequences that are broken off or longer than
// maxSequence are shown escaped, as in `\x07`.
type Capture struct {
	ends  ends
	total int64 // bytes taken in
	lines int64 // newlines in ends
	line  int64 // where in ends the current line starts

	// back is by how many runes the cursor is before the end of the line. The
	// next text replaces them; a newline leaves them.
	back int
	// below holds the lines below the cursor's, each after a newline: at most
	// screen of them, and no more bytes than the limit. They are not in ends.
	below []byte
	// moved is what moves between lines have cost; see maxMoved.
	moved int64
	// part holds the bytes of a rune that is not complete, else nothing.
	part []byte
	// sequence holds the bytes of an escape sequence that is not complete, from
	// its ESC on, else nothing.
	sequence []byte
}

// A Cut says how much of a stream a text shows.
type Cut struct {
	// Total is how many bytes the stream carried, Lines how many lines.
	Total, Lines int64
	// Shown is how many bytes of the text are the stream's, the marker apart.
	Shown int64
	// Left and LeftLines are the bytes and the newlines that the marker stands
	// for, counted in the text as it would be without a limit. Left is 0 when
	// the text is whole, though it may have fewer bytes than the stream.
	Left, LeftLines int64
}

// New returns a Capture that shows up to limit bytes: all of the text if it
// fits, else the first half and the last half, with a marker line between them
// that comes on top. Below zero is zero.
func New(limit int) *Capture {
	return &Capture{ends: newEnds(max(limit, 0))}
}

// Write takes in p. It always returns len(p) and nil.
func (c *Capture) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	c.feed(p)
	return len(p), nil
}

// Text returns what there is to see, valid UTF-8, and how much of the whole that
// is. It may be called again after more was taken in.
func (c *Capture) Text() (string, Cut) {
	if len(c.part) > 0 || len(c.sequence) > 0 || len(c.below) > 0 {
		c = c.finished()
	}
	cut := Cut{Total: c.total, Lines: c.lines}
	if c.ends.size > c.line {
		cut.Lines++
	}
	head, tail, whole := c.ends.parts()
	cut.Shown = int64(len(head) + len(tail))
	if whole {
		return string(head) + string(tail), cut
	}
	cut.Left = c.ends.size - cut.Shown
	cut.LeftLines = c.lines - int64(bytes.Count(head, newline)+bytes.Count(tail, newline))
	return string(head) + marker(cut, head) + string(tail), cut
}

// finished returns a copy of c to which nothing more comes, so that what is not
// complete is shown as it is, and the cursor is in the last line.
func (c *Capture) finished() *Capture {
	d := *c
	d.ends.head, d.ends.tail = slices.Clone(c.ends.head), slices.Clone(c.ends.tail)
	d.part, d.sequence = slices.Clone(c.part), slices.Clone(c.sequence)
	for len(d.sequence) > 0 {
		d.showSequence()
	}
	if len(d.part) > 0 {
		d.text(bytes.Repeat([]byte("\uFFFD"), len(d.part)))
		d.part = nil
	}
	d.append(d.below)
	d.below = nil
	return &d
}

// marker returns the line that stands for what was left out after head.
func marker(cut Cut, head []byte) string {
	var b strings.Builder
	if len(head) > 0 && head[len(head)-1] != '\n' {
		b.WriteByte('\n')
	}
	b.WriteString("… " + human.Plural(cut.Left, "byte"))
	if cut.LeftLines > 0 {
		b.WriteString(" (" + human.Plural(cut.LeftLines, "line") + ")")
	}
	b.WriteString(" left out …\n")
	return b.String()
}
