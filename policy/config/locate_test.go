package config

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// TestLocate marks places in the text: ‹ is where a key is named first, › where
// a value begins. The marks are taken out before the text is read.
func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // what is at the marks, in order
	}{
		{"plain", "‹a = ›1\n‹b=›2", []string{"a", "a=", "b", "b="}},
		{"tables", "[ ‹a . \"‹b.c\" ]\n‹d = ›1 # [x]\n[a]\n‹e = ›2\n", []string{"a", "a/b.c", "a/b.c/d", "a/b.c/d=", "a/e", "a/e="}},
		{"comments", "# x = 1\n\t# [x]\n‹a = ›1 # b = 2\n#\n‹c = ›3#", []string{"a", "a=", "c", "c="}},
		{"CRLF", "\r\n# x\r\n[‹a]\r\n‹b = ›1\r\n‹c = ›'x'\r\n", []string{"a", "a/b", "a/b=", "a/c", "a/c="}},
		{"strings", `‹a = ›"x\"\n=#" # "` + "\n‹b = ›'x\\'\n‹c = ›\"\"\n‹d = ›''\n‹e = ›1", []string{"a", "a=", "b", "b=", "c", "c=", "d", "d=", "e", "e="}},
		{"long strings", "‹a = ›\"\"\"\nx = 1\n\\\"\"\"\ny = 2\"\"\"\"\"\n‹b = ›'''\n[x]\n\\'''''\n‹c = ›\"\"\"\"\"\"\n‹d = ›1", []string{"a", "a=", "b", "b=", "c", "c=", "d", "d="}},
		{"dotted", "‹a . ‹b.‹c = ›1\na.b.‹d = ›2", []string{"a", "a/b", "a/b/c", "a/b/c=", "a/b/d", "a/b/d="}},
		{"quoted", "\"‹\\u0061\" = ›1\n'‹b\\' = ›2\n\"‹\" = ›3", []string{"a", "a=", `b\`, `b\=`, "", "="}},
		{"inline", "‹a = ›{ ‹b = ›1, ‹c.‹d = ›{ }, ‹e = ›[ ›{ ‹f = ›2 } ] }\n‹g=›3", []string{
			"a", "a=", "a/b", "a/b=", "a/c", "a/c/d", "a/c/d=", "a/e", "a/e=", "a/e/0=", "a/e/0/f", "a/e/0/f=", "g", "g=",
		}},
		{"arrays", "‹a = ›[ # x = [\n ›\"]\" , ›[›1,›2], # ]\n ›[],\n]\n‹b = ›[]", []string{
			"a", "a=", "a/0=", "a/1=", "a/1/0=", "a/1/1=", "a/2=", "b", "b=",
		}},
		{"arrays of tables", "[[‹a]]\n‹b = ›1\n[a.‹c]\n‹d = ›2\n[[a]]\n‹b = ›3\n[[a.‹c]]\n‹d = ›4\n[[a.c]]\n‹d = ›5\n", []string{
			"a", "a/0/b", "a/0/b=", "a/0/c", "a/0/c/d", "a/0/c/d=", "a/1/b", "a/1/b=", "a/1/c", "a/1/c/0/d", "a/1/c/0/d=", "a/1/c/1/d", "a/1/c/1/d=",
		}},
		{"scalars", "‹a = ›1979-05-27 07:32:00\n‹b = ›+1_0.5e-3\n‹c = ›true", []string{"a", "a=", "b", "b=", "c", "c="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, marks := unmark(tt.text)
			var tree map[string]any
			if _, err := toml.Decode(text, &tree); err != nil {
				t.Fatalf("the text is not TOML: %v", err)
			}
			l := locate(text)
			want := map[string]int{}
			for i, what := range tt.want {
				want[what] = marks[i]
			}
			got := map[string]int{}
			for path, off := range l.keys {
				got[strings.ReplaceAll(path, "\x00", "/")] = off
			}
			for path, off := range l.values {
				got[strings.ReplaceAll(path, "\x00", "/")+"="] = off
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("locate(%q) (-want +got):\n%s", text, diff)
			}
			if len(l.doubles) > 0 {
				t.Errorf("locate(%q) has doubles %q, want none", text, l.doubles)
			}
		})
	}
}

// unmark takes the marks out of text. It returns where they were; of a quoted
// key, that is its quote.
func unmark(text string) (string, []int) {
	var b strings.Builder
	var marks []int
	for _, r := range text {
		if r != '‹' && r != '›' {
			b.WriteRune(r)
			continue
		}
		at := b.Len()
		if s := b.String(); r == '‹' && at > 0 && (s[at-1] == '"' || s[at-1] == '\'') {
			at--
		}
		marks = append(marks, at)
	}
	return b.String(), marks
}

func TestLocateDoubles(t *testing.T) {
	for text, want := range map[string][]string{
		"a.b = 1\na = 2":                       {"a"},
		"[s]\nh.x = 1\nh = 2":                  {"s\x00h"},
		"a = 1\nb = 1":                         nil,
		"a.b = 1\na.c = 1":                     nil,
		"[[a]]\nb = 1\n[[a]]\nb = 1":           nil,
		"a = [{b = 1}, {b = 1}]":               nil,
		"[a.b]\nc = 1\n[a]\nd = 1\n[b]\nc = 1": nil,
	} {
		if diff := cmp.Diff(want, locate(text).doubles); diff != "" {
			t.Errorf("locate(%q).doubles (-want +got):\n%s", text, diff)
		}
	}
}

// TestLocateDeep has nesting that would cost the square of its depth if each
// path was kept.
func TestLocateDeep(t *testing.T) {
	const n = 50000
	text := "a = " + strings.Repeat("[", n) + strings.Repeat("]", n) + "\nb" + strings.Repeat(".b", n) + " = 1\nc = 1"
	l := locate(text)
	if got := len(l.keys) + len(l.values); got > 4*maxDepth {
		t.Errorf("locate keeps %d places, want at most %d", got, 4*maxDepth)
	}
	if got, want := l.keyAt("c"), strings.LastIndex(text, "c"); got != want {
		t.Errorf("keyAt(c) = %d, want %d", got, want)
	}
}

func TestPlace(t *testing.T) {
	const text = "a\r\nüb\n\nc"
	for _, tt := range []struct{ offset, line, column int }{
		{0, 1, 1}, {1, 1, 2}, {3, 2, 1}, {5, 2, 2}, {6, 2, 3}, {7, 3, 1}, {8, 4, 1}, {9, 4, 2}, {99, 4, 2}, {-1, 1, 1},
	} {
		if line, column := place(text, tt.offset); line != tt.line || column != tt.column {
			t.Errorf("place(%d) = %s, want %s", tt.offset, at(line, column), at(tt.line, tt.column))
		}
	}
}

func at(line, column int) string { return strconv.Itoa(line) + ":" + strconv.Itoa(column) }

// FuzzLocate wants every key that the library sees to have a place.
func FuzzLocate(f *testing.F) {
	f.Add(full)
	f.Add("[[a]]\n'b'.c = [{d = \"\"\"x\"\"\"}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := locate(text) // ends, and does not panic, whatever the text
		tree, err := decode(text)
		if err != nil || strings.HasPrefix(text, "\ufeff") {
			return
		}
		var walk func(path []string, v any)
		walk = func(path []string, v any) {
			if len(path) > maxDepth {
				return
			}
			if len(path) > 0 && l.valueAt(path...) < 0 {
				t.Errorf("no place for %q in %q", path, text)
			}
			switch v := v.(type) {
			case map[string]any:
				for k, e := range v {
					walk(append(slices.Clip(path), k), e)
				}
			case []any:
				for i, e := range v {
					walk(append(slices.Clip(path), strconv.Itoa(i)), e)
				}
			case []map[string]any:
				for i, e := range v {
					for k, e := range e {
						walk(append(slices.Clip(path), strconv.Itoa(i), k), e)
					}
				}
			}
		}
		walk(nil, tree)
	})
}
