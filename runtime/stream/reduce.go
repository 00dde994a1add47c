package stream

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxSequence is the length past which an escape sequence is shown, not obeyed.
const maxSequence = 4096

const (
	bell   = 0x07
	escape = 0x1b
	del    = 0x7f
)

var newline = []byte{'\n'}

// feed takes in bytes in whatever state c is.
func (c *Capture) feed(p []byte) {
	for len(p) > 0 {
		switch {
		case len(c.part) > 0:
			c.part = append(c.part, p[0])
			p = p[1:]
			c.part = append(c.part[:0], c.plain(c.part)...)
		case len(c.sequence) > 0:
			p = c.inSequence(p)
		default:
			p = c.plain(p)
			if len(c.sequence) == 0 {
				c.part = append(c.part[:0], p...)
				return
			}
		}
	}
}

// plain takes in bytes that are outside of an escape sequence and at the start
// of a rune. It returns what is left when a sequence begins, which is then in
// c.sequence, or when all but the bytes of an incomplete rune is taken in.
func (c *Capture) plain(p []byte) []byte {
	for len(p) > 0 {
		if n := span(p); n > 0 {
			c.text(p[:n])
			p = p[n:]
			continue
		}
		switch p[0] {
		case escape:
			c.sequence = append(c.sequence[:0], escape)
			return p[1:]
		case '\r':
			c.back = lineStart
		case '\b':
			c.moveBack(1)
		default:
			n := c.strange(p)
			if n == 0 {
				return p
			}
			p = p[n:]
			continue
		}
		p = p[1:]
	}
	return nil
}

// text adds text that is shown as it is, newlines among it.
func (c *Capture) text(p []byte) {
	if len(c.below) > 0 {
		if p = c.over(p); len(p) == 0 {
			return
		}
	}
	switch {
	case c.back == 0:
	case p[0] != '\n':
		c.erase()
	case c.back == lineStart:
		c.ends.add([]byte{'\r'})
	}
	c.back = 0
	c.append(p)
}

// strange takes in bytes that are shown in another form, from the start of p on,
// and some of what is between and after them. It returns how many: none if p
// begins with an incomplete rune.
func (c *Capture) strange(p []byte) int {
	var room [256]byte
	shown, n := room[:0], 0
	for n < len(p) && len(shown) < len(room)-len(`\u202e`) {
		if form := forms[p[n]]; form != "" {
			shown = append(shown, form...)
			n++
			continue
		}
		r, size := utf8.DecodeRune(p[n:])
		switch {
		case r < utf8.RuneSelf, !utf8.FullRune(p[n:]):
			size = 0
		case r <= 0x9f:
			shown = strconv.AppendInt(append(shown, `\x`...), int64(r), 16)
		case turns(r):
			shown = strconv.AppendInt(append(shown, `\u`...), int64(r), 16)
		default:
			shown = utf8.AppendRune(shown, r)
		}
		if size == 0 {
			break
		}
		n += size
	}
	if n > 0 {
		c.text(shown)
	}
	return n
}

// forms holds how bytes are shown, "" for those that move the cursor or are in a
// rune of several.
var forms = func() (forms [256]string) {
	for b := range utf8.RuneSelf {
		if forms[b] = string(rune(b)); !asciiPlain(byte(b)) {
			forms[b] = fmt.Sprintf(`\x%02x`, b)
		}
	}
	forms['\r'], forms['\b'], forms[escape] = "", "", ""
	return forms
}()

// turns tells whether r changes the direction of what is written after it, in
// ways that can show a text in another order than it has.
func turns(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// span returns the length of the longest start of p that is shown as it is.
func span(p []byte) int {
	i := 0
	for i < len(p) {
		if n := asciiSpan(p[i:]); n > 0 {
			i += n
			continue
		}
		if p[i] < utf8.RuneSelf {
			break
		}
		r, size := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && size == 1 || r <= 0x9f || turns(r) {
			break
		}
		i += size
	}
	return i
}

// asciiSpan returns the length of the longest start of p that is printable
// ASCII, tabs and newlines.
func asciiSpan(p []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = ones << 7
	)
	i := 0
	for ; i+8 <= len(p); i += 8 {
		// Eight bytes at once: where none is below ' ', is del or is not ASCII, no
		// high bit is set.
		w := binary.LittleEndian.Uint64(p[i:])
		low := w - ones*' '
		deleted := (w ^ ones*del) - ones
		if (w|low|deleted)&highs == 0 {
			continue
		}
		for j, b := range p[i : i+8] {
			if !asciiPlain(b) {
				return i + j
			}
		}
	}
	for i < len(p) && asciiPlain(p[i]) {
		i++
	}
	return i
}

func asciiPlain(b byte) bool {
	return b >= ' ' && b < del || b == '\n' || b == '\t'
}
