package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnfinished(t *testing.T) {
	for _, test := range []struct {
		name, entry string
		want        bool
	}{
		{"empty line", "", false},
		{"blanks", "  ", false},
		{"statement", "x = 1", false},
		{"comment that looks like a block", "# note:", false},
		{"statement in brackets", "print((1), [2], {3})", false},
		{"block on one line", "if x: y", false},
		{"block", "for i in x:", true},
		{"block with blanks after it", "for i in x:  ", true},
		{"block that goes on", "for i in x:\n    y", true},
		{"block that ended", "for i in x:\n    y\n", false},
		{"block that ended with blanks", "for i in x:\n    y\n  ", false},
		{"decorator", "@cache", true},
		{"open bracket", "x = [1,", true},
		{"open brace", "x = {", true},
		{"backslash", `x = 1 + \`, true},
		{"open text", `x = """a`, true},
		{"open text of the other kind", "x = '''a", true},
		{"closed text", `x = """a"""`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := unfinished(strings.Split(test.entry, "\n")); got != test.want {
				t.Errorf("unfinished(%q) = %t, want %t", test.entry, got, test.want)
			}
		})
	}
}

func TestPrompt(t *testing.T) {
	bad := &exitError{code: 3}
	refusal := &exitError{exitNotRun, errors.New("too long")}
	for _, test := range []struct {
		name, in string
		outcomes []error // of the entries, in order; nil once they are over
		want     []string
		err      string // on standard error
		code     int
	}{
		{"nothing", "", nil, nil, "", 0},
		{"one line without its end", "a", nil, []string{"a\n"}, "", 0},
		{"lines", "a\n\nb\n", nil, []string{"a\n", "b\n"}, "", 0},
		{"block up to the end", "if a:\n  b\nc", nil, []string{"if a:\n  b\nc\n"}, "", 0},
		{"block and a line", "if a:\n  b\n\nc\n", nil, []string{"if a:\n  b\n\n", "c\n"}, "", 0},
		{"code fails, the last is good", "a\nb\n", []error{bad}, []string{"a\n", "b\n"}, "", 0},
		{"the last fails", "a\nb\n", []error{nil, bad}, []string{"a\n", "b\n"}, "", 3},
		{"one is not run", "a\nb\n", []error{refusal, bad}, []string{"a\n", "b\n"}, "cloche: too long\n", 3},
		{"the last is not run", "a\n", []error{refusal}, []string{"a\n"}, "cloche: too long\n", exitNotRun},
		{"our own fault", "a\n", []error{errors.New("broken")}, []string{"a\n"}, "cloche: broken\n", exitFailure},
		{"a line that is too long", "a\n" + strings.Repeat("x", 101) + "\n", nil, []string{"a\n"}, "", exitNotRun},
	} {
		t.Run(test.name, func(t *testing.T) {
			var ran []string
			var said strings.Builder
			p := prompt{in: strings.NewReader(test.in), err: &said, most: 100, run: func(source string) error {
				ran = append(ran, source)
				if n := len(ran) - 1; n < len(test.outcomes) {
					return test.outcomes[n]
				}
				return nil
			}}
			err := p.serve(t.Context())
			if diff := cmp.Diff(test.want, ran); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if got := exitCode(err, new(strings.Builder)); got != test.code || said.String() != test.err {
				t.Errorf("serve = %v, exit %d, said %q, want exit %d and %q", err, got, said.String(), test.code, test.err)
			}
		})
	}
}
