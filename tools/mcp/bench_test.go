package mcp

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkCall measures what a call costs beside its tool, by the size of its
// arguments, which come back twice.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{10, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, _ := newServer(newFakes())
			line := callLine("1", eras[0].meta, "echo", `{"a":"`+strings.Repeat("x", size)+`"}`) + "\n"
			in := &repeating{line: line, n: b.N}
			b.SetBytes(int64(len(line)))
			if err := s.Stdio(b.Context(), in, io.Discard, patience); err != nil {
				b.Error(err)
			}
		})
	}
}

// repeating reads as n times the line.
type repeating struct {
	line string
	n    int
	rest string
}

func (r *repeating) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.n == 0 {
			return 0, io.EOF
		}
		r.n--
		r.rest = r.line
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
