package stream

import (
	"strings"
	"testing"
)

// TestMovesAreBounded: past the bound moves between lines are left out, and what
// is written stays. Text above the bound is as ever.
func TestMovesAreBounded(t *testing.T) {
	const bar = "one\ntwo\x1b[A\rONE\x1b[B\r"
	c := New(10_000)
	_, _ = c.Write([]byte(bar))
	if got, _ := c.Text(); got != "ONE\ntwo" {
		t.Errorf("Text() = %q, want the moves obeyed", got)
	}
	line := strings.Repeat("x", 4_000)
	move := []byte(line + "\n" + line + strings.Repeat("\x1b[A\x1b[B", 10_000))
	_, _ = c.Write(move)
	if c.moved <= maxMoved {
		t.Fatalf("moves cost %d bytes, want past the bound of %d", c.moved, maxMoved)
	}
	before := c.moved
	_, _ = c.Write([]byte("\nlast\x1b[Aline"))
	if got, _ := c.Text(); c.moved != before || !strings.HasSuffix(got, "\nlastline") {
		t.Errorf("past the bound Text() ends %q, want the move left out", got[max(0, len(got)-20):])
	}
}

// TestBoundAbove: a stream that comes to the bound while the cursor is above the
// last line loses nothing of what it writes afterwards.
func TestBoundAbove(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"text", "X", "aX\nb\nc"},
		{"newlines", "\n1\n2\n", "a\nb\nc\n1\n2\n"},
		{"text and newlines", "X\n1\n2", "aX\nb\nc\n1\n2"},
		{"CR and newlines", "\rX\n1\n2", "X\nb\nc\n1\n2"},
		{"up", "\x1b[AX", "a\nb\ncX"},
		{"down", "\x1b[BX\n1", "a\nb\ncX\n1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := New(1000)
			_, _ = c.Write([]byte("a\nb\nc\x1b[2A"))
			c.moved = maxMoved + 1
			_, _ = c.Write([]byte(tt.in))
			if got, _ := c.Text(); got != tt.want {
				t.Errorf("Text() after %q = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// BenchmarkMoves writes what would be dear if each move were obeyed.
func BenchmarkMoves(b *testing.B) {
	line := strings.Repeat("x", 5_000)
	flood := []byte(line + "\n" + line + strings.Repeat("\x1b[A\x1b[B", 1_000_000))
	b.SetBytes(int64(len(flood)))
	for b.Loop() {
		c := New(12_000)
		_, _ = c.Write(flood)
	}
}
