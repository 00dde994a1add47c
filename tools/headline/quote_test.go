package headline

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/stream"
)

func TestQuoteName(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "out/a.csv", "out/a.csv"},
		{"other scripts", "报告2025（终稿）.csv", "报告2025（终稿）.csv"},
		{"composed and not", "\u00e9 e\u0301", "\"\u00e9 e\u0301\""},
		{"emoji", "😀.txt", "😀.txt"},
		{"emoji with a selector", "❤️.txt", "❤️.txt"},
		{"emoji of several", "👩\u200d🔬.txt", `"👩\u200d🔬.txt"`},
		{"space", "a b", `"a b"`},
		{"quotes", `a"b'c`, `"a\u0022b'c"`},
		{"empty", "", `""`},
		{"like a removal", "-old", `"-old"`},
		{"like an addition", "+new", `"+new"`},
		{"like a change", "~new", `"~new"`},
		{"like the end of the names", "…", `"…"`},
		{"newline", "a\nb\r\tc", `"a\u000ab\u000d\u0009c"`},
		{"separator", "a · b", `"a \u00b7 b"`},
		{"separator in another encoding", "a \u0387 b", `"a \u0387 b"`},
		{"brackets", "a]b[c", `"a\u005db\u005bc"`},
		{"backslash", `a\u000ab`, `"a\u005cu000ab"`},
		{"direction", "a\u202etxt.exe\u2066", `"a\u202etxt.exe\u2066"`},
		{"lines of Unicode", "a\u2028b\u2029c\u0085d", `"a\u2028b\u2029c\u0085d"`},
		{"unusual spaces", "a\u00a0b\u3000c\u200bd\ufeffe", `"a\u00a0b\u3000c\u200bd\ufeffe"`},
		{"letters without a shape", "a\u3164b\u115fc\u034fd", `"a\u3164b\u115fc\u034fd"`},
		{"hidden words", "a\U000e0041\U000e01e0\ufe00", `"a\U000e0041\U000e01e0\ufe00"`},
		{"not UTF-8", "a\xff\xc3(\xe2\x82", `"a\xff\xc3(\xe2\x82"`},
		{"replacement rune itself", "a\ufffd", "a\ufffd"},
		{"NUL", "a\x00", `"a\u0000"`},
		{"at the limit", x(maxQuoted), x(maxQuoted)},
		{"one past it", x(maxQuoted + 1), `"` + x(maxQuoted) + `…"`},
		{"a rune past it", x(maxQuoted-1) + "é", `"` + x(maxQuoted-1) + `…"`},
		{"an escape past it", x(maxQuoted-5) + "\n", `"` + x(maxQuoted-5) + `…"`},
		{"quotes without end", strings.Repeat(`"`, 1<<20), `"` + strings.Repeat(`\u0022`, maxQuoted/6) + `…"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := quoteName(tt.in); got != tt.want {
				t.Errorf("quoteName(%.100q) = %s, want %s", tt.in, got, tt.want)
			}
		})
	}
}

// FuzzLine holds, of a report with any texts in it: the line is one, begins and
// ends as it has to, has the separators that are ours and no others, no
// brackets inside, and is not long.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "a", "a · b", "]\n[", "\u202e", "\xff", "a\\\"b", "… and 3 more", "\u0387", "👩\u200d🔬", strings.Repeat("é", 500)} {
		f.Add(seed, "data.db", seed, uint8(3), true)
	}
	f.Fuzz(func(t *testing.T, text, name, reason string, n uint8, on bool) {
		r := Report{
			How: "how " + text, Attachments: Files{int64(n), 1}, Exit: sandbox.Exit{Lost: reason, Code: int(n)}, TimeLimit: time.Minute,
			Stdout: Output{Cut: stream.Cut{Left: 1}, Whole: name}, Stderr: Output{Cut: stream.Cut{Left: int64(n)}},
			Queued: time.Second, Behind: int(n), Notices: []string{text, reason}, Conversation: text, Tell: on,
		}
		parts := 7 // how, workspace, seconds, exit, output, two notices
		for range n {
			r.Files = append(r.Files, name)
			name += text[:min(len(text), 10)]
		}
		if n > 0 {
			parts += 4 // attachments, files, stderr, queued
		}
		if on {
			r.Saved = &Change{Added: r.Files, Changed: []string{text}, Removed: []string{name, reason}}
			parts += 2 // saved, conversation
		} else {
			r.Workspace.NotMounted = reason
		}
		line := r.Line()
		if got := 1 + strings.Count(line, separator); got != parts {
			t.Errorf("%d parts, want %d: %q", got, parts, line)
		}
		if got := 1 + strings.Count(line, "·"); got != parts {
			t.Errorf("%d dots, want %d: %q", got-1, parts-1, line)
		}
		if !strings.HasPrefix(line, "[") || !strings.HasSuffix(line, "]") || strings.ContainsAny(line[1:len(line)-1], "[]") {
			t.Errorf("brackets are not those at its ends: %q", line)
		}
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !visible(r) }) {
			t.Errorf("something in it does not show: %q", line)
		}
		if most := 12*maxQuoted + 2*maxNameBytes; len(line) > most {
			t.Errorf("it has %d bytes, want at most %d", len(line), most)
		}
		if head, _, _ := strings.Cut(r.Text(), "\n"); head != line {
			t.Errorf("the text begins %q, want %q", head, line)
		}
	})
}
