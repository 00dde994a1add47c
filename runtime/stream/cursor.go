package stream

import (
	"bytes"
	"math"
	"slices"
	"unicode/utf8"
)

// lineStart is a value of Capture.back: the cursor is at the start of the line.
const lineStart = math.MaxInt

// screen is by how many lines the cursor may go up.
const screen = 64

// maxMoved bounds the bytes that all moves between lines of one stream may look
// at or move. Hours of progress bars stay below it; past it such moves are left
// out, so that they cost a stream's reader no more than its text does.
const maxMoved = 64 << 20

// moveBack moves the cursor n runes to the left, at most to the line's start.
func (c *Capture) moveBack(n int) {
	if n < lineStart-c.back {
		c.back += n
	} else {
		c.back = lineStart
	}
}

// column returns how many runes are before the cursor in its line, which is more
// than any if the line is too long to be here.
func (c *Capture) column() int {
	line, here := c.ends.from(c.line)
	if !here {
		return math.MaxInt
	}
	return max(runes(line)-c.back, 0)
}

// moveTo moves the cursor to column n, or to the line's end if that is before. A
// carriage return at the end is not of the line any more, for text may follow.
func (c *Capture) moveTo(n int) {
	line, here := c.ends.from(c.line)
	if last := len(line) - 1; last >= 0 && line[last] == '\r' {
		line = line[:last]
		c.ends.truncate(c.ends.size - 1)
	}
	if here {
		c.back = max(runes(line)-n, 0)
	} else if n == 0 {
		c.back = lineStart
	}
}

// pay counts what a move between lines looks at: the lines below the cursor and
// its own, which are copied and measured. False: it is not to be made, and the
// cursor is at the end of the last line, so that nothing is written over.
func (c *Capture) pay() bool {
	const least = 64 // of a move over next to nothing
	if c.moved > maxMoved {
		if len(c.below) > 0 {
			c.append(c.below)
			c.below, c.back = nil, 0
		}
		return false
	}
	c.moved += least + int64(len(c.below)) + 2*min(c.ends.size-c.line, int64(c.ends.limit))
	return true
}

// moveUp moves the cursor by n lines, as far as they are still here.
func (c *Capture) moveUp(n int) {
	if !c.pay() {
		return
	}
	column := c.column()
	line, end, moved := c.line, c.ends.size, 0
	for n = min(n, screen-bytes.Count(c.below, newline)); moved < n; moved++ {
		start, here := c.ends.lineBefore(line)
		if !here || c.ends.size-(line-1)+int64(len(c.below)) > int64(c.ends.limit) {
			break
		}
		line, end = start, line-1
	}
	if moved == 0 {
		return
	}
	below, _ := c.ends.from(end)
	c.below = slices.Insert(c.below, 0, below...)
	c.ends.truncate(end)
	c.line = line
	c.lines -= int64(moved)
	c.moveTo(column)
}

// moveDown moves the cursor by n lines, at most to the last.
func (c *Capture) moveDown(n int) {
	if len(c.below) > 0 && c.pay() {
		c.down(n)
	}
}

// down is moveDown, once it is paid for.
func (c *Capture) down(n int) {
	column := c.column()
	end := 0
	for ; n > 0 && end < len(c.below); n-- {
		line := bytes.IndexByte(c.below[end+1:], '\n')
		if line < 0 {
			line = len(c.below) - end - 1
		}
		end += 1 + line
	}
	c.append(c.below[:end])
	c.below = slices.Delete(c.below, 0, end)
	c.moveTo(column)
}

// over adds the start of p, up to where the cursor is in the last line or p has
// no more newlines. It returns the rest.
func (c *Capture) over(p []byte) []byte {
	for len(c.below) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		switch {
		case i > 0:
			c.erase()
			c.ends.add(p[:i])
		case c.back == lineStart:
			c.ends.add([]byte{'\r'})
		}
		p = p[i:]
		if !c.pay() {
			break
		}
		c.down(1)
		c.moveTo(0)
		p = p[1:]
	}
	return p
}

// append adds p, newlines among it, to the end of the cursor's line.
func (c *Capture) append(p []byte) {
	if n := bytes.Count(p, newline); n > 0 {
		c.lines += int64(n)
		c.line = c.ends.size + int64(bytes.LastIndexByte(p, '\n')) + 1
	}
	c.ends.add(p)
}

// erase removes what is between the cursor and the end of the line, as far as it
// is still there.
func (c *Capture) erase() {
	if c.back == lineStart {
		c.ends.truncate(c.line)
	}
	for ; c.back > 0 && c.ends.size > c.line; c.back-- {
		n := c.ends.lastRune()
		if n == 0 {
			break
		}
		c.ends.truncate(c.ends.size - int64(n))
	}
	c.back = 0
}

// runes counts the runes of p, which is valid UTF-8, without taking memory.
func runes(p []byte) (n int) {
	for _, b := range p {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}
