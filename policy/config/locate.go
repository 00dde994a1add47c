package config

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxDepth is the longest path that is located; no key of ours is that deep.
const maxDepth = 8

// A locator knows where in a text its keys and values are. The library's
// parser keeps no such places for keys that it has not decoded into a type.
type locator struct {
	text string
	off  int      // what was read of text
	path []string // of what is being read

	keys    map[string]int // by path, where the key is named first
	values  map[string]int // by path, where its value begins
	arrays  map[string]int // by path, the [[headers]] so far
	doubles []string       // paths that got a value and had something before
}

// locate reads text, which the library must have taken as TOML. Of any other
// text it says nothing sensible, but it ends.
func locate(text string) *locator {
	l := &locator{
		text:   text,
		keys:   map[string]int{},
		values: map[string]int{},
		arrays: map[string]int{},
	}
	var table []string
	for l.blank(); l.off < len(text); l.blank() {
		l.path = append(l.path[:0], table...)
		if l.peek() == '[' {
			l.header()
			table = append(table[:0], l.path...)
			continue
		}
		l.pair()
	}
	return l
}

// keyAt returns where the last part of path is named, -1 if it is not.
func (l *locator) keyAt(path ...string) int { return find(l.keys, path) }

// valueAt returns where the value at path begins; for a table with a header, that
// is the name in the header. An element of an array is named by its index.
func (l *locator) valueAt(path ...string) int {
	if off := find(l.values, path); off >= 0 {
		return off
	}
	return l.keyAt(path...)
}

func find(places map[string]int, path []string) int {
	if off, ok := places[joined(path)]; ok {
		return off
	}
	return -1
}

func joined(path []string) string { return strings.Join(path, "\x00") }

// header reads [a.b] or [[a.b]] and leaves its path in l.path.
func (l *locator) header() {
	l.path = l.path[:0]
	l.off++
	array := l.peek() == '['
	if array {
		l.off++
	}
	for l.part(); l.peek() == '.'; l.part() {
		// What follows is about the newest element of an array of tables.
		l.path = l.element(l.path)
		l.off++
	}
	if array {
		l.arrays[joined(l.path)]++
	}
	l.path = l.element(l.path)
	for l.peek() == ']' {
		l.off++
	}
}

// element returns path with the index of the newest element, if it is an array
// of tables.
func (l *locator) element(path []string) []string {
	if n := l.arrays[joined(path)]; n > 0 {
		return append(path, strconv.Itoa(n-1))
	}
	return path
}

// pair reads a.b = value. It leaves l.path longer.
func (l *locator) pair() {
	for l.part(); l.peek() == '.'; l.part() {
		l.off++
	}
	l.off++ // =
	l.value()
}

// part reads one part of a key, adds it to l.path and notes where it is.
func (l *locator) part() {
	l.space()
	start := l.off
	var name string
	switch l.peek() {
	case '"', '\'':
		l.str()
		name = unquote(l.text[start:l.off])
	default:
		l.until(" \t.=]}\r\n")
		name = l.text[start:l.off]
	}
	l.space()
	l.path = append(l.path, name)
	if len(l.path) > maxDepth {
		return
	}
	p := joined(l.path)
	_, known := l.keys[p]
	if !known {
		l.keys[p] = start
	}
	if known && l.peek() == '=' {
		l.doubles = append(l.doubles, p)
	}
}

// value reads a value, whose path is l.path, and notes where it is.
func (l *locator) value() {
	l.space()
	if len(l.path) <= maxDepth {
		l.values[joined(l.path)] = l.off
	}
	depth := len(l.path)
	switch l.peek() {
	case '"', '\'':
		l.str()
	case '[':
		l.off++
		for i := 0; l.more(']'); i++ {
			l.path = append(l.path[:depth], strconv.Itoa(i))
			l.value()
		}
	case '{':
		l.off++
		for l.more('}') {
			l.path = l.path[:depth]
			l.pair()
		}
	default:
		start := l.off
		l.until(",]}#\r\n")
		if l.off == start {
			l.off++
		}
	}
	l.path = l.path[:depth]
}

// more goes to the next element of an array or inline table, or past its end.
func (l *locator) more(end byte) bool {
	for l.blank(); l.peek() == ','; l.blank() {
		l.off++
	}
	if l.peek() == end {
		l.off++
		return false
	}
	return l.off < len(l.text)
}

// str goes past a string of any of the four kinds.
func (l *locator) str() {
	quote := l.text[l.off : l.off+1]
	long := strings.Repeat(quote, 3)
	if !strings.HasPrefix(l.text[l.off:], long) {
		l.off++
		l.close(quote)
		return
	}
	l.off += 3
	l.close(long)
	// Up to two quotes before the closing three belong to the string.
	for range 2 {
		if strings.HasPrefix(l.text[l.off:], quote) {
			l.off++
		}
	}
}

// close goes past the next end that no backslash escapes.
func (l *locator) close(end string) {
	for ; l.off < len(l.text); l.off++ {
		switch {
		case strings.HasPrefix(l.text[l.off:], end):
			l.off += len(end)
			return
		case l.text[l.off] == '\\' && end[0] == '"':
			l.off++
		}
	}
	l.off = len(l.text)
}

// blank goes past spaces, line ends and comments.
func (l *locator) blank() {
	for {
		l.space()
		switch l.peek() {
		case '\r', '\n':
			l.off++
		case '#':
			l.until("\n")
		default:
			return
		}
	}
}

func (l *locator) space() {
	for c := l.peek(); c == ' ' || c == '\t'; c = l.peek() {
		l.off++
	}
}

// until goes to the next of the characters in end, or to the end of the text.
func (l *locator) until(end string) {
	if n := strings.IndexAny(l.text[min(l.off, len(l.text)):], end); n >= 0 {
		l.off += n
		return
	}
	l.off = len(l.text)
}

// peek returns the byte to read next, 0 at the end.
func (l *locator) peek() byte {
	if l.off < len(l.text) {
		return l.text[l.off]
	}
	return 0
}

// unquote returns the name that a quoted part of a key stands for.
func unquote(quoted string) string {
	if !strings.Contains(quoted, `\`) || quoted[0] == '\'' {
		return strings.Trim(quoted, quoted[:1])
	}
	var v struct{ K string }
	if _, err := toml.Decode("K = "+quoted, &v); err != nil {
		return quoted
	}
	return v.K
}
