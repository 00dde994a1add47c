package headline

import (
	"fmt"
	"strings"
	"unicode"
)

// maxQuoted bounds one text of somebody else's in the line, in bytes.
const maxQuoted = 400

// quote makes s fit into the line: whatever could break it, end it, or change
// how it reads is escaped.
func quote(s string) string {
	cut := len(s) > maxQuoted
	if cut {
		s = s[:maxQuoted]
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '·' || r == ']' || r == '[' || r == '\\':
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			// Not printable: controls, line and paragraph separators, marks that
			// change the direction of writing, unusual spaces.
			if r > 0xffff {
				fmt.Fprintf(&b, `\U%08x`, r)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// quoteName quotes a file's name; one with a space or a quote in it, or that
// looks like something else in the line, is put between quotes.
func quoteName(name string) string {
	q := quote(name)
	if q == "" || q != name || strings.ContainsAny(q, ` "'`) || strings.ContainsAny(q[:1], "+~-…") {
		return `"` + strings.ReplaceAll(q, `"`, `\u0022`) + `"`
	}
	return q
}
