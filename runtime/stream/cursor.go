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

// moveBack moves the cursor n runes to the left, at most to the line's start.
func (c *Capture) moveBack(n int) {
	if n < lineStart-c.back {
		c.back += n
	} else {
		c.back = lineStart
	}
}

// column returns how many runes are before the cursor in its line. The line is
// p.
func (c *Capture) column(p []byte) int {
	return max(utf8.RuneCount(p)-c.back, 0)
}

// moveTo moves the cursor to column n, or to the line's end if that is before.
func (c *Capture) moveTo(n int) {
	line, _ := c.ends.from(c.line)
	c.back = max(utf8.RuneCount(line)-n, 0)
}

// moveUp moves the cursor by n lines, as far as they are still here.
func (c *Capture) moveUp(n int) {
	line, here := c.ends.from(c.line)
	if !here {
		return
	}
	column := c.column(line)
	for ; n > 0 && c.up(); n-- {
	}
	c.moveTo(column)
}

// moveDown moves the cursor by n lines, at most to the last.
func (c *Capture) moveDown(n int) {
	line, _ := c.ends.from(c.line)
	column := c.column(line)
	for ; n > 0 && len(c.below) > 0; n-- {
		c.down()
	}
	c.moveTo(column)
}

// up makes the line before the current one the current one. It reports whether
// there is one that can be.
func (c *Capture) up() bool {
	line, here := c.ends.from(c.line)
	start, ok := c.ends.lineBefore(c.line)
	if !here || !ok || len(c.below) == screen {
		return false
	}
	size := len(line)
	for _, b := range c.below {
		size += len(b)
	}
	if size > c.ends.limit {
		return false
	}
	c.below = append(c.below, slices.Clone(line))
	c.ends.truncate(c.line - 1)
	c.line = start
	c.lines--
	return true
}

// down makes the line below the current one the current one.
// Preconditions: c.below is not empty.
func (c *Capture) down() {
	last := len(c.below) - 1
	c.ends.add(newline)
	c.line = c.ends.size
	c.lines++
	c.ends.add(c.below[last])
	c.below = c.below[:last]
}

// over adds the start of p, up to where the cursor is in the last line or p has
// no more newlines. It returns the rest.
func (c *Capture) over(p []byte) []byte {
	for len(c.below) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		if i > 0 {
			c.erase()
			c.ends.add(p[:i])
		}
		c.down()
		c.moveTo(0)
		p = p[i+1:]
	}
	return p
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
