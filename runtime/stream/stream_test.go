package stream

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// capture returns what a Capture shows of in, written at once and byte by byte.
func capture(t testing.TB, limit int, in string) (string, Cut) {
	t.Helper()
	atOnce, byByte := New(limit), New(limit)
	_, _ = atOnce.Write([]byte(in))
	for i := range len(in) {
		_, _ = byByte.Write([]byte{in[i]})
		if i%7 == 0 {
			byByte.Text() // must not change what is shown later
		}
	}
	text, cut := atOnce.Text()
	text2, cut2 := byByte.Text()
	if text != text2 || cut != cut2 {
		t.Errorf("byte by byte %q gives %q, %+v; at once %q, %+v", in, text2, cut2, text, cut)
	}
	return text, cut
}

func TestReduce(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"plain", "a\tb\nc", "a\tb\nc"},
		{"blank lines and CRLF", "a\n\n\nb\r\n\r\nc", "a\n\n\nb\r\n\r\nc"},
		{"CRLF last", "a\r\n", "a\r\n"},
		{"two CR before the newline", "a\r\r\nb", "a\r\nb"},
		{"other scripts", "报告 é e\u0301 😀 שלום\n", "报告 é e\u0301 😀 שלום\n"},

		{"progress", "x\n 1%\r 50%\r100%\ndone\n", "x\n100%\ndone\n"},
		{"progress with CR first", "\r 1%\r 50%\r100%\n", "100%\n"},
		{"CR last", "50%\r", "50%"},
		{"CR at the start of a line", "a\n\rb", "a\nb"},
		{"longer than what replaces it", "long line\rb\n", "b\n"},
		{"CR over an escape", "\r\x1b[32m 1%\x1b[0m\r\x1b[32m 2%\x1b[0m\n", " 2%\n"},
		{"CR, then colours off, then newline", "a\r\x1b[0m\n", "a\r\n"},
		{"spinner", "|\b/\b-\b\\\b", "\\"},
		{"percent with backspaces", " 9%\b\b\b10%\n", "10%\n"},
		{"overstrike", "_\bxb\bb", "xb"},
		{"backspace before the start", "a\nb\b\b\bc", "a\nc"},
		{"backspace over a wide rune", "a报\bb", "ab"},
		{"backspace last", "ab\b\b\n", "ab\n"},
		{"backspace, then CRLF", "ab\b\r\n", "ab\r\n"},
		{"CR, then backspace", "abc\r\bd", "d"},

		{"colours", "\x1b[1;31mred\x1b[0m \x1b[38;5;12mblue\x1b[m", "red blue"},
		{"erase the line", "a\x1b[2Kb", "b"},
		{"erase the line, then newline", "50%\r\x1b[K\n", "\n"},
		{"erase to the end", "abc\b\b\x1b[0K", "a"},
		{"erase to the end at the end", "abc\x1b[K", "abc"},
		{"erase to the start is left out", "abc\r\x1b[1K", "abc"},
		{"column 1", " 1%\x1b[G 2%\x1b[1G 3%\x1b[0G 4%", " 4%"},
		{"another column is left out", "a\x1b[5Gb", "ab"},
		{"cursor left", "abc\x1b[Dd\x1b[2De\x1b[1000Df", "f"},
		{"cursor left by nothing", "ab\x1b[0Dc", "ac"},
		{"cursor left by too much", "ab\x1b[99999999999999999999Dc", "abc"},
		{"cursor left, repeatedly", "ab\x1b[9223372036854775807D\x1b[9223372036854775807Dc", "c"},
		{"title, BEL", "\x1b]0;t\xff é\x07a", "a"},
		{"link, ST", "\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\", "a"},
		{"string ended by another sequence", "\x1b]0;t\x1b[1mb", "b"},
		{"string with an ESC before its end", "\x1bPq\x1b\x1b\\a", `\x1ba`},
		{"DCS, SOS, PM, APC", "\x1bPa\x1b\\\x1bXb\x1b\\\x1b^c\x1b\\\x1b_d\x1b\\e", "e"},
		{"BEL does not end a DCS", "\x1bPa\x07b", `\x1bPa\x07b`},
		{"short ones", "\x1b7\x1b=\x1bMa\x1b(B\x1b%Gb\x1bc", "ab"},
		{"ESC, ESC", "\x1b\x1b[1ma", `\x1ba`},
		{"broken CSI", "\x1b[31\nmore", "\\x1b[31\nmore"},
		{"broken title", "\x1b]0;no end\nmore", "\\x1b]0;no end\nmore"},
		{"broken inside a rune", "\x1b]0;\xe6\x8a\nmore", "\\x1b]0;\uFFFD\uFFFD\nmore"},
		{"ESC before a rune", "\x1bé", `\x1bé`},
		{"ESC before a control", "\x1b\x00a", `\x1b\x00a`},
		{"incomplete at the end", "a\x1b[3", `a\x1b[3`},
		{"incomplete at the end, ESC in it", "a\x1b]3\x1b", `a\x1b]3\x1b`},
		{"ESC last", "a\x1b", `a\x1b`},

		{"not UTF-8", "\xff\xfe\x00\x07ok\n", "\uFFFD\uFFFD\\x00\\x07ok\n"},
		{"rune cut short", "a\xe6\x8ab", "a\uFFFD\uFFFDb"},
		{"rune cut short by an escape", "\xe6\x8a\x1b[1mb", "\uFFFD\uFFFDb"},
		{"rune cut short at the end", "a\xe6\x8a", "a\uFFFD\uFFFD"},
		{"overlong, surrogate, too large", "\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", strings.Repeat("\uFFFD", 9)},
		{"replacement rune itself", "\uFFFD", "\uFFFD"},
		{"C0 and DEL", "\x01\x0b\x0c\x1f\x7f", `\x01\x0b\x0c\x1f\x7f`},
		{"C1", "\u0080\u0085\u009b31m\u009f\u00a0", "\\x80\\x85\\x9b31m\\x9f\u00a0"},
		{"direction", "a\u202eb\u2066c\u2069\u202a", `a\u202eb\u2066c\u2069\u202a`},
		{"marks of direction stay", "\u200f\u200e", "\u200f\u200e"},
		{"a control replaces too", "ab\r\x07", `\x07`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, cut := capture(t, 1000, tt.in)
			if text != tt.want {
				t.Errorf("Text() of %q = %q, want %q", tt.in, text, tt.want)
			}
			lines := int64(strings.Count(tt.want, "\n"))
			if tt.want != "" && !strings.HasSuffix(tt.want, "\n") {
				lines++
			}
			want := Cut{Total: int64(len(tt.in)), Lines: lines, Shown: int64(len(tt.want))}
			if diff := cmp.Diff(want, cut); diff != "" {
				t.Errorf("cut of %q (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	numbers := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "%03d\n", i)
		}
		return b.String()
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name  string
		limit int
		in    string
		want  string
		cut   Cut
	}{
		{"at the limit", 10, x(10), x(10), Cut{10, 1, 10, 0, 0}},
		{"one past", 10, x(11), "xxxxx\n… 1 byte left out …\nxxxxx", Cut{11, 1, 10, 1, 0}},
		{"one past, uneven", 9, x(10), "xxxx\n… 1 byte left out …\nxxxxx", Cut{10, 1, 9, 1, 0}},
		{"lines at the limit", 400, numbers(0, 100), numbers(0, 100), Cut{400, 100, 400, 0, 0}},
		{
			"one line past", 400, numbers(0, 101),
			numbers(0, 50) + "… 8 bytes (2 lines) left out …\n" + numbers(52, 101),
			Cut{404, 101, 396, 8, 2},
		},
		{
			"between lines", 401, numbers(0, 300),
			numbers(0, 50) + "… 800 bytes (200 lines) left out …\n" + numbers(250, 300),
			Cut{1200, 300, 400, 800, 200},
		},
		{
			"between runes", 10, strings.Repeat("报", 500),
			"报\n… 1,494 bytes left out …\n报",
			Cut{1500, 1, 6, 1494, 0},
		},
		{
			"a short line is not worth the cut", 40, "ab\n" + x(37) + "\n", "ab\n" + x(17) +
				"\n… 1 byte left out …\n" + x(19) + "\n", Cut{41, 2, 40, 1, 0},
		},
		{"no room", 0, "abc\n", "… 4 bytes (1 line) left out …\n", Cut{4, 1, 0, 4, 1}},
		{"less than no room", -1, "a", "… 1 byte left out …\n", Cut{1, 1, 0, 1, 0}},
		{"room for one", 1, "ab", "… 1 byte left out …\nb", Cut{2, 1, 1, 1, 0}},
		{"nothing in no room", 0, "", "", Cut{}},
		{"a long line is replaced", 10, x(1e5) + "\rdone\n", "done\n", Cut{100006, 1, 5, 0, 0}},
		{
			"a long line is replaced, text before it lost", 20, numbers(0, 10) + x(100) + "\rdone\n",
			"000\n001\n… 32 bytes (8 lines) left out …\ndone\n",
			Cut{146, 11, 13, 32, 8},
		},
		{"backspace into what is lost", 8, x(100) + strings.Repeat("\b", 50) + "end", "xxxx\n… 88 bytes left out …\nend", Cut{153, 1, 7, 88, 0}},
		{"backspace across the middle", 7, "aa报报\b\bb", "aab", Cut{11, 1, 3, 0, 0}},
		{"shown longer than it came", 8, "\x00\x00\x00", "\\x00\n… 4 bytes left out …\n\\x00", Cut{3, 1, 8, 4, 0}},
		{"whole although the stream was long", 20, strings.Repeat("\r99%", 1e4) + "\n", "99%\n", Cut{40001, 1, 4, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, cut := capture(t, tt.limit, tt.in)
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.cut, cut); diff != "" {
				t.Errorf("cut (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSequenceLimit(t *testing.T) {
	for _, start := range []string{"\x1b]", "\x1b[", "\x1bP", "\x1b("} {
		pad := strings.Repeat("1", maxSequence-len(start))
		if start == "\x1b(" {
			pad = strings.Repeat("(", maxSequence-len(start))
		}
		end := "m"
		if start == "\x1b]" || start == "\x1bP" {
			pad, end = pad[1:], "\x1b\\"
		}
		if text, _ := capture(t, 1e5, start+pad+end+"ok"); text != "ok" {
			t.Errorf("sequence %q at the limit gives %.40q…, want it left out", start, text)
		}
		want := `\x1b` + start[1:] + pad + pad[:1] + strings.TrimPrefix(end, "\x1b")
		want = strings.TrimSuffix(want, `\`) + "ok"
		if text, _ := capture(t, 1e5, start+pad+pad[:1]+end+"ok"); text != want {
			t.Errorf("sequence %q past the limit gives …%q, want it shown", start, text[max(len(text)-40, 0):])
		}
	}
}

// TestTqdm is what tqdm 4.67 writes to a pipe.
func TestTqdm(t *testing.T) {
	var b strings.Builder
	bar := func(i int) {
		fmt.Fprintf(&b, "\r%3d%%|%-10s| %d/1000 [00:01<00:00, 99.9it/s]", i/10, strings.Repeat("█", i/100), i)
	}
	for i := range 1000 {
		bar(i)
	}
	bar(1000)
	b.WriteString("\n")
	const want = "100%|██████████| 1000/1000 [00:01<00:00, 99.9it/s]\n"
	if text, _ := capture(t, 12_000, b.String()); text != want {
		t.Errorf("Text() = %q, want %q", text, want)
	}
}

// TestMemory holds that a flood costs no memory, whatever it is made of.
func TestMemory(t *testing.T) {
	const limit, total = 12_000, 2 << 20
	for _, flood := range floods() {
		t.Run(flood.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := New(limit)
			for n := 0; n < total; n += len(flood.data) {
				_, _ = c.Write(flood.data)
			}
			text, cut := c.Text()
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 20*limit {
				t.Errorf("%d MB took %d bytes of memory, want at most %d", cut.Total>>20, got, 20*limit)
			}
			if len(text) > limit+100 {
				t.Errorf("text has %d bytes, want at most %d and the marker", len(text), limit)
			}
		})
	}
}

// A flood is output that comes without end.
type flood struct {
	name string
	data []byte
}

func floods() []flood {
	random := make([]byte, 64<<10)
	x := uint32(1)
	for i := range random {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		random[i] = byte(x >> 8)
	}
	repeat := func(s string) []byte { return bytes.Repeat([]byte(s), (64<<10)/len(s)) }
	return []flood{
		{"lines", repeat(strings.Repeat("0123456789", 8)[:79] + "\n")},
		{"short lines", repeat("y\n")},
		{"one line", repeat("x")},
		{"CRLF", repeat(strings.Repeat("0123456789", 8)[:78] + "\r\n")},
		{"Chinese", repeat("报告终稿")},
		{"mixed scripts", repeat("données é naïve, größer ")},
		{"colours", repeat("\x1b[32mok\x1b[0m some test passed\n")},
		{"bars", repeat("\r 50%|█████     | 500/1000 [00:01<00:00, 99.9it/s]")},
		{"backspaces", repeat("ab\b\b")},
		{"nested bars", repeat("\n\r 50%|█████     | 500/1000 [00:01<00:00, 99.9it/s]\x1b[A")},
		{"cursor up and down", append(repeat("\n"), repeat("\x1b[99A\x1b[99B")...)},
		{"long lines above", append(repeat(strings.Repeat("x", 127)+"\n"), repeat("\x1b[9Ax\x1b[9B")...)},
		{"NUL", repeat("\x00")},
		{"random", random},
		{"ESC", repeat("\x1b")},
		{"string without end", repeat("\x1b]000000000000000")},
		{"string with one start", append([]byte("\x1b]"), repeat("0")...)},
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, flood := range floods() {
		b.Run(flood.name, func(b *testing.B) {
			c := New(12_000)
			b.SetBytes(int64(len(flood.data)))
			for b.Loop() {
				_, _ = c.Write(flood.data)
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	c := New(12_000)
	for range 1000 {
		_, _ = c.Write([]byte(strings.Repeat("x", 79) + "\n"))
	}
	for b.Loop() {
		c.Text()
	}
}
