package stream

import (
	"fmt"
	"strings"
	"testing"
)

func TestCursor(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"up, over the start", "a\n\x1b[Ab\n", "b\n"},
		{"up keeps the column", "ab\ncd\x1b[AX", "abX\ncd"},
		{"up keeps the column, in the middle", "abc\nd\x1b[AX", "aX\nd"},
		{"up to a line that is shorter", "a\nbcde\x1b[AX", "aX\nbcde"},
		{"up to one that is empty", "\nbc\x1b[AX\nY", "X\nY"},
		{"up past the start", "a\nb\x1b[9A\rX", "X\nb"},
		{"up in the first line", "ab\r\x1b[Ac", "c"},
		{"up by nothing is by one", "a\nb\x1b[0A\rX", "X\nb"},
		{"up and down", "a\nb\nc\x1b[2A\rX\x1b[B\rY", "X\nY\nc"},
		{"down past the end", "a\nb\x1b[A\x1b[7B\rY", "a\nY"},
		{"down in the last line", "ab\b\x1b[BX", "aX"},
		{"down adds no line", "a\x1b[3B\nb", "a\nb"},
		{"to the start of a line above", "a\nb\ncde\x1b[2FX", "X\nb\ncde"},
		{"to the start of a line below", "a\nb\ncde\x1b[2A\x1b[2EX", "a\nb\nX"},
		{"to the start of a line where there is none", "abc\x1b[EX", "X"},
		{"a newline goes to the line below", "a\nb\x1b[A\nX", "a\nX"},
		{"newlines to the end and on", "a\nb\nc\x1b[2A\r1\n2\n3\n4", "1\n2\n3\n4"},
		{"newlines alone", "a\nb\nc\x1b[2A\n\n\nX", "a\nb\nc\nX"},
		{"CRLF", "a\r\nb\x1b[A\r\nX\r\n", "a\r\nX\r\n"},
		{"CRLF, again and again", "a\nb" + strings.Repeat("\x1b[A\r\n", 9), "a\r\nb"},
		{"text after CRLF", "a\r\nbc\r\nd\x1b[2A\x1b[BX\x1b[FY", "Y\nbX\nd"},
		{"erase the screen from here on", "a\nb\nc\x1b[2FX\x1b[J", "X"},
		{"erase the screen from the middle of a line on", "abc\nd\ne\x1b[2A\x1b[0JX\n", "aX\n"},
		{"erase all of the screen is left out", "a\nb\x1b[A\x1b[2JX", "aX\nb"},
		{"erase a line above", "a\nb\x1b[A\x1b[2K", "\nb"},
		{"log-update", "a\nb\n\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[Gc\nd\n", "c\nd\n"},
		{"incomplete above the last line", "a\nb\x1b[A\x1b[", "a\\x1b[\nb"},
		{"half a rune above the last line", "a\nb\x1b[A\xe6", "a\uFFFD\nb"},
		{"runes of several bytes", "报告\n终稿\x1b[A\bX", "报X\n终稿"},
		{"not a number", "a\nb\x1b[?1A\rX", "a\nX"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, cut := capture(t, 1000, tt.in)
			if text != tt.want {
				t.Errorf("Text() of %q = %q, want %q", tt.in, text, tt.want)
			}
			lines := int64(strings.Count(tt.want, "\n"))
			if !strings.HasSuffix(tt.want, "\n") {
				lines++
			}
			if want := (Cut{Total: int64(len(tt.in)), Lines: lines, Shown: int64(len(tt.want))}); cut != want {
				t.Errorf("cut of %q = %+v, want %+v", tt.in, cut, want)
			}
		})
	}
}

func TestCursorLimits(t *testing.T) {
	high := strings.Repeat("\n", screen)
	text, _ := capture(t, 1000, "top"+high+"\x1b[999A\rX")
	if want := "X" + high; text != want {
		t.Errorf("up by a screen gives %q, want %q", text, want)
	}
	text, _ = capture(t, 1000, "top\n"+high+"\x1b[999A\rX")
	if want := "top\nX" + high; text != want {
		t.Errorf("up by more than a screen gives %q, want %q", text, want)
	}

	// What is below the cursor may be as long as what is shown, and no longer.
	for _, tt := range []struct {
		name  string
		limit int
		in    string
		want  string
	}{
		{"all that is below fits", 10, "\n" + strings.Repeat("b", 9) + "\x1b[A\rX", "X\nbbb\n… 1 byte left out …\nbbbbb"},
		{"one byte too much", 10, "\n" + strings.Repeat("b", 10) + "\x1b[A\rX", "\nX"},
		{"lines above are lost", 10, strings.Repeat("a\n", 100) + "\x1b[99AX\x1b[J", "a\na\n… 186 bytes (93 lines) left out …\na\nX"},
		{"line itself is lost", 10, "a\n" + strings.Repeat("b", 99) + "\x1b[A\x1b[BX", "a\nbbb\n… 92 bytes left out …\nbbbbX"},
		{"long line above the last, then down", 4, "a\nb\x1b[A" + strings.Repeat("c", 99) + "\x1b[BX", "ac\n… 99 bytes (1 line) left out …\nbX"},
		{"no room", 0, "a\nb\x1b[A\rX", "… 3 bytes (1 line) left out …\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if text, _ := capture(t, tt.limit, tt.in); text != tt.want {
				t.Errorf("Text() = %q, want %q", text, tt.want)
			}
		})
	}
}

// TestNestedBars is what tqdm writes to a pipe when one bar is inside another:
// the inner one goes a line down, and back up when it is drawn.
func TestNestedBars(t *testing.T) {
	var b strings.Builder
	bar := func(name string, i, of int) string {
		return fmt.Sprintf("\r%s: %3d%%|%-10s| %d/%d", name, 100*i/of, strings.Repeat("█", 10*i/of), i, of)
	}
	const epochs, batches = 5, 100
	for i := range epochs {
		b.WriteString(bar("epochs", i, epochs))
		for j := range batches + 1 {
			b.WriteString("\n" + bar("batches", j, batches) + "\x1b[A")
		}
		b.WriteString("\n\r" + strings.Repeat(" ", 40) + "\x1b[A")
	}
	b.WriteString(bar("epochs", epochs, epochs) + "\ndone\n")
	const want = "epochs: 100%|██████████| 5/5\ndone\n"
	if text, _ := capture(t, 12_000, b.String()); text != want {
		t.Errorf("Text() = %q, want %q", text, want)
	}
}
