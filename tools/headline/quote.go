package headline

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuoted bounds one text of somebody else's in the line, in bytes as shown. A
// name of that length still fits among the names.
const maxQuoted = 400

// ours are the characters that the line is built with, the Greek one because it
// is the middle dot in another encoding; a name's quote is ours too.
const ours = "·\u0387[]\\"

// quote makes s fit into the line: whatever could break it, end it, part it, or
// change how it reads is escaped, and what is too long is cut.
func quote(s string) string { return escape(s, ours) }

// quoteName quotes a file's name; one with a space or a quote in it, or that
// looks like something else in the line, is put between quotes.
func quoteName(name string) string {
	q := escape(name, ours+`"`)
	if q == "" || q != name || strings.ContainsAny(q, " '") || strings.ContainsRune("+~-…", []rune(q)[0]) {
		return `"` + q + `"`
	}
	return q
}

func escape(s, special string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		form := s[:size]
		switch {
		case r == utf8.RuneError && size == 1:
			form = fmt.Sprintf(`\x%02x`, s[0])
		case strings.ContainsRune(special, r) || !visible(r):
			form = escaped(r)
		}
		if b.Len()+len(form) > maxQuoted {
			return b.String() + "…"
		}
		b.WriteString(form)
		s = s[size:]
	}
	return b.String()
}

// visible reports whether r shows itself and leaves alone what is around it.
// Controls do not, nor line and paragraph separators, marks that change the
// direction of writing, unusual spaces, and letters and marks without a shape;
// the two selectors that tell emoji from text do no harm.
func visible(r rune) bool {
	const asText, asEmoji = '\uFE0E', '\uFE0F'
	switch {
	case r == asText || r == asEmoji:
		return true
	case !unicode.IsPrint(r):
		return false
	}
	return !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func escaped(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
