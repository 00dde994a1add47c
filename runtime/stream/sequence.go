package stream

import (
	"cmp"
	"strconv"
)

// A verdict says what a byte is to the escape sequence before it.
type verdict int

const (
	more   verdict = iota // the sequence goes on
	last                  // the sequence ends with this byte
	broken                // the byte cannot be in the sequence
	other                 // the ESC before the byte began another sequence
)

// inSequence takes in bytes of the sequence that c.sequence holds the start of.
// It returns what is left when the sequence has ended or was shown.
//
// Preconditions: c.sequence is not empty.
func (c *Capture) inSequence(p []byte) []byte {
	for i, b := range p {
		v := judge(c.sequence, b)
		if v == other {
			c.sequence = c.sequence[:1]
			v = judge(c.sequence, b)
		}
		switch {
		case v == last:
			seq := c.sequence
			c.sequence = c.sequence[:0]
			c.obey(seq, b)
			return p[i+1:]
		case v == broken, len(c.sequence) == maxSequence:
			c.showSequence()
			return p[i:]
		}
		c.sequence = append(c.sequence, b)
	}
	return nil
}

// judge tells what b is to seq, the start of a sequence.
func judge(seq []byte, b byte) verdict {
	if len(seq) == 1 {
		switch {
		case b == '[', commandString(b), intermediate(b):
			return more
		case b >= 0x30 && b < del:
			return last
		}
		return broken
	}
	switch kind := seq[1]; {
	case kind == '[':
		switch {
		case b >= 0x20 && b <= 0x3f:
			return more
		case b >= 0x40 && b < del:
			return last
		}
	case commandString(kind):
		switch {
		case seq[len(seq)-1] == escape && b == '\\':
			return last
		case seq[len(seq)-1] == escape:
			return other
		case kind == ']' && b == bell:
			return last
		case b >= ' ' && b != del, b == escape:
			return more
		}
	case intermediate(b):
		return more
	case b >= 0x30 && b < del:
		return last
	}
	return broken
}

// commandString tells whether ESC and b begin a string that ST ends: OSC, DCS,
// SOS, PM and APC.
func commandString(b byte) bool {
	return b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_'
}

func intermediate(b byte) bool { return b >= 0x20 && b <= 0x2f }

// obey does what the sequence of seq and final asks for, if that is to move the
// cursor to the left or by lines, or to erase from it on.
func (c *Capture) obey(seq []byte, final byte) {
	if len(seq) < 2 || seq[1] != '[' {
		return
	}
	args := string(seq[2:])
	switch final {
	case 'J', 'K':
		c.obeyErase(args, final)
	case 'G':
		if args == "" || args == "0" || args == "1" {
			c.back = lineStart
		}
	case 'A', 'B', 'D', 'E', 'F':
		n, err := strconv.Atoi(cmp.Or(args, "1"))
		if err == nil {
			c.obeyMove(max(n, 1), final)
		}
	}
}

// obeyMove moves the cursor by n.
func (c *Capture) obeyMove(n int, final byte) {
	switch final {
	case 'A', 'F':
		c.moveUp(n)
	case 'B', 'E':
		c.moveDown(n)
	case 'D':
		c.moveBack(n)
	}
	if final == 'E' || final == 'F' {
		c.moveTo(0)
	}
}

// obeyErase erases from the cursor on, in the line or on the screen, or the
// line.
func (c *Capture) obeyErase(args string, final byte) {
	switch {
	case args == "" || args == "0":
		c.erase()
		if final == 'J' {
			c.below = c.below[:0]
		}
	case args == "2" && final == 'K':
		c.back = lineStart
		c.erase()
	}
}

// showSequence adds the sequence that c.sequence holds the start of as text.
func (c *Capture) showSequence() {
	seq := c.sequence
	// An ESC can only be at the end of seq, so that what feed makes of it does
	// not overwrite bytes that it has still to read.
	c.sequence = seq[:0]
	c.text([]byte(`\x1b`))
	c.feed(seq[1:])
}
