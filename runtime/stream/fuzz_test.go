package stream

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// far matches what moves the cursor into text that a limit may have lost.
var far = regexp.MustCompile(`\x08|\x1b\[[+0-9]*[ADF]`)

// FuzzCapture holds, of any bytes in any split: the text is the same as that of
// one write, valid, bounded, free of controls, and the two ends of what a
// Capture without a limit shows.
func FuzzCapture(f *testing.F) {
	for _, seed := range []string{
		"a\n\n\nb\r\n\r\nc", "\r 1%\r50%\n", "\x1b[31mred\x1b[0m\x1b]0;t\x07\x1b]8;;x\x1b\\", "a\x1b[2Kb\x1b[D\x1b[G",
		"a\nb\x1b[A\x1b[2BX\x1b[F\x1b[J", "\n\r1%\x1b[A\n\r2%\x1b[A", "a\n\n\n\x1b[9A\nb\x1b[Ec", "\xff\xfe\x00\x07ok\n", "\xe6\x8a\x1b[", "报告\b\b\u202e\u0085", "\x1b]\xe6\x8a\n", "abc\x1b",
	} {
		f.Add([]byte(seed), uint8(3), uint16(10))
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8, limit uint16) {
		atOnce, split, whole := New(int(limit)), New(int(limit)), New(100*len(in)+maxSequence)
		_, _ = atOnce.Write(in)
		_, _ = whole.Write(in)
		for rest := in; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			_, _ = split.Write(rest[:n])
			rest = rest[n:]
			step = step*31 + 7
			if step%4 == 0 {
				split.Text()
			}
		}
		text, cut := atOnce.Text()
		if got, gotCut := split.Text(); got != text || gotCut != cut {
			t.Errorf("split: %q, %+v; at once: %q, %+v", got, gotCut, text, cut)
		}
		all, allCut := whole.Text()
		checkText(t, all)
		checkText(t, text)
		if int64(len(all)) != allCut.Shown || allCut.Left != 0 {
			t.Errorf("without a limit %d bytes were shown, cut %+v", len(all), allCut)
		}
		if cut.Shown > int64(limit) || cut.Total != int64(len(in)) {
			t.Errorf("cut = %+v with limit %d, want that of %+v", cut, limit, allCut)
		}
		if again, _ := capture(t, len(all), all); again != all {
			t.Errorf("text of the text = %q, want %q", again, all)
		}
		if far.Match(in) {
			return
		}
		if cut.Lines != allCut.Lines {
			t.Errorf("cut = %+v with limit %d, want that of %+v", cut, limit, allCut)
		}
		if cut.Left == 0 && text != all {
			t.Errorf("text = %q, want %q", text, all)
		}
		checkEnds(t, atOnce, all)
	})
}

// checkText reports what no text may have.
func checkText(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("text %q is not UTF-8", text)
	}
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || turns(r) {
			t.Errorf("text %q has %U", text, r)
		}
	}
}

// checkEnds reports ends of c that are not those of all, the whole text. Where
// a carriage return led into what was gone, only the start is known.
func checkEnds(t *testing.T, c *Capture, all string) {
	t.Helper()
	c = c.finished()
	head, tail, _ := c.ends.parts()
	if !strings.HasPrefix(all, string(head)) {
		t.Errorf("head %q is not the start of %q", head, all)
	}
	if c.ends.size == int64(len(all)) && !strings.HasSuffix(all, string(tail)) {
		t.Errorf("tail %q is not the end of %q", tail, all)
	}
}
