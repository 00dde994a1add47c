package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Problem is one mistake of a file.
type Problem struct {
	File string
	// Line and Column count from 1, Column in characters. Both are 0 when the
	// problem is not at one place.
	Line, Column int
	// Text says what is wrong and what is allowed.
	Text string
}

// String returns the problem in the form that editors know, file:line:column: text.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// maxProblems is how many problems of a file are looked at.
const maxProblems = 1000

// An Error holds the mistakes of a file in the order of the file: all of them, or
// maxProblems, if there are that many; of a file that is not TOML, the first.
type Error struct {
	Problems []Problem
}

// maxShown is how many problems Error shows; the rest is counted.
const maxShown = 20

// Error returns one line a problem.
func (e *Error) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("%s: and %d more problems", p.File, len(e.Problems)-i))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// place returns the line and column of the byte at offset in text.
func place(text string, offset int) (line, column int) {
	before := text[:min(max(offset, 0), len(text))]
	line = 1 + strings.Count(before, "\n")
	column = 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return line, column
}
