package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"cloche.dev/cloche/cmd/cloche/internal/bench"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/tools/headline"
)

// TestHelpOfEachCommand checks what every command's help has.
func TestHelpOfEachCommand(t *testing.T) {
	var line commandLine
	parser := kong.Must(&line)
	for _, leaf := range parser.Model.Leaves(false) {
		for _, part := range []string{"Exit codes: ", "Example"} {
			if !strings.Contains(leaf.Detail, part) {
				t.Errorf("the help of %s does not say %q", leaf.Path(), part)
			}
		}
	}
}

func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		code int
		said string
	}{
		{"none", nil, 0, ""},
		{"plain", errors.New("broken"), 1, "cloche: broken\n"},
		{"code alone", &exitError{code: 7}, 7, ""},
		{"code and error", &exitError{125, errors.New("broken")}, 125, "cloche: broken\n"},
		{"wrapped", fmt.Errorf("run: %w", &exitError{code: 7}), 7, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said strings.Builder
			if got := exitCode(test.err, &said); got != test.code || said.String() != test.said {
				t.Errorf("exitCode(%v) = %d, said %q, want %d and %q", test.err, got, said.String(), test.code, test.said)
			}
		})
	}
}

func TestReadable(t *testing.T) {
	cause := errors.New("stat x: no such file")
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"plain", cause, "stat x: no such file"},
		{"fault", fault.New(fault.Busy, "wait"), "wait"},
		{"fault with its cause", fault.Wrap(fault.Busy, cause, "wait"), "wait (stat x: no such file)"},
		{"fault that came twice", fault.Wrap(fault.Busy, fault.Wrap(fault.Busy, cause, "wait"), "wait"), "wait (stat x: no such file)"},
		{"nothing but itself", fault.Wrap(fault.Busy, errors.New("wait"), "wait"), "wait"},
		{"within another error", fmt.Errorf("ask: %w", fault.Wrap(fault.Busy, cause, "wait")), "ask: wait (stat x: no such file)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := readable(test.err); got != test.want {
				t.Errorf("readable(%v) = %q, want %q", test.err, got, test.want)
			}
		})
	}
}

func TestCodeOf(t *testing.T) {
	zero, three := 0, 3
	for _, test := range []struct {
		name string
		exit headline.StructuredExit
		want int
	}{
		{"zero", headline.StructuredExit{Reason: "exit", Code: &zero}, 0},
		{"three", headline.StructuredExit{Reason: "exit", Code: &three}, 3},
		{"signal", headline.StructuredExit{Reason: "signal", Signal: 11}, 139},
		{"time-out", headline.StructuredExit{Reason: "timeout"}, 124},
		{"memory", headline.StructuredExit{Reason: "out_of_memory"}, 137},
		{"stopped", headline.StructuredExit{Reason: "stopped"}, 130},
		{"lost", headline.StructuredExit{Reason: "lost"}, 125},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := codeOf(test.exit); got != test.want {
				t.Errorf("codeOf(%+v) = %d, want %d", test.exit, got, test.want)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1m30s": 90 * time.Second, "90": 90 * time.Second, "0.5": time.Second / 2, "200ms": time.Second / 5, "-1": -time.Second, "0": 0,
	} {
		var s span
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %v, %v, want %v", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "soon", "1 h", "s", "1e400"} {
		var s span
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v, want an error", text, time.Duration(s))
		}
	}
}

func TestHint(t *testing.T) {
	none := func(string) string { return "" }
	claude := func(name string) string { return map[string]string{"CLAUDE_CODE_SESSION_ID": "1"}[name] }
	grok := func(name string) string { return map[string]string{"GROK_SESSION_ID": "1"}[name] }
	named := stdioCommand{Conversation: "1"}
	var free stdioCommand
	hints := map[string]bool{named.hint(none): true, free.hint(claude): true, free.hint(grok): true, free.hint(none): true}
	if len(hints) != 4 || hints[free.hint(none)] {
		t.Errorf("hints are not told apart: %v", hints)
	}
	if named.hint(claude) != named.hint(none) {
		t.Error("a name does not go before the client's session")
	}
}

func TestLastLines(t *testing.T) {
	var l lastLines
	for range 1000 {
		if n, err := l.Write([]byte("12345678\n")); n != 9 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	_, _ = l.Write([]byte("the end\n"))
	if got := l.String(); len(got) != keptLog || !strings.HasSuffix(got, "12345678\nthe end\n") {
		t.Errorf("kept %d bytes, ending %q", len(got), got[max(0, len(got)-20):])
	}
}

func TestBenchJudged(t *testing.T) {
	with := func(all ...bench.Verdict) *bench.Report {
		r := &bench.Report{}
		for _, v := range all {
			r.Rows = append(r.Rows, bench.Line{Verdict: v})
		}
		return r
	}
	for _, test := range []struct {
		name          string
		report        *bench.Report
		code, checked int // without and with --check
	}{
		{"all is well", with(bench.Within, bench.Within), 0, 0},
		{"a bar is missed", with(bench.Within, bench.Above), 0, 1},
		{"what is left out or not judged misses none", with(bench.LeftOut, bench.Unjudged), 0, 0},
		{"something failed", with(bench.Within, bench.Failed), 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			for check, want := range map[bool]int{false: test.code, true: test.checked} {
				c := benchCommand{Check: check}
				if got := exitCode(c.judged(test.report), io.Discard); got != want {
					t.Errorf("with --check=%v the exit code is %d, want %d", check, got, want)
				}
			}
		})
	}
}
