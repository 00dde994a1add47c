package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/headline"
)

// Exit codes of cloche run for code that did not end by itself, as timeout(1)
// and the shell have them.
const (
	exitNotRun   = 125
	exitTimeout  = 124
	exitNoMemory = 137
	exitSignal   = 128 // and the signal's number
)

type runCommand struct {
	Conversation string `placeholder:"NAME" help:"Name of the conversation that the code belongs to."`
	Timeout      *span  `placeholder:"TIME" help:"How long each file may run, such as 90s or 5m; calls.timeout if not given."`
	JSON         bool   `help:"Print each result as JSON, one a line."`

	Files []string `arg:"" optional:"" name:"file" help:"Python files, run one after the other until one fails; - is standard input. Without any, a prompt."`
}

func (runCommand) Help() string {
	return `What the code prints goes to standard output and standard error; the line that an agent gets about the run goes to standard error.

Exit codes: that of the code, at the prompt of the last entry; 124 if it ran past its limit, 137 if it was out of memory, 128 and the signal if one ended it (130 for Ctrl-C), 125 if it was not run or its sandbox was lost, 2 for a wrong command line.

Examples:
  cloche run analysis.py
  echo 'print(6*7)' | cloche run -
  cloche run`
}

// A span is a time on the command line: 90s, 1m30s, or a number of seconds.
type span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		d, err = time.ParseDuration(string(text) + "s")
	}
	if err != nil {
		return fmt.Errorf("%q is no time; write it like 90s, 1m30s or 90", text)
	}
	*s = span(d)
	return nil
}

// Run runs the files, or a prompt.
func (c *runCommand) Run(ctx context.Context, line *commandLine, s streams) (err error) {
	a, err := openQuiet(ctx, line, "name\x00"+c.Conversation)
	if err != nil {
		return &exitError{exitNotRun, err}
	}
	defer func() {
		if cerr := a.Close(ctx); err == nil && cerr != nil {
			err = &exitError{exitNotRun, cerr}
		}
	}()
	most := int(a.policy.Current().Calls.MaxCode)
	one := func(source string) error { return c.one(ctx, a, s, source) }
	if len(c.Files) == 0 {
		a.warm(ctx)
		p := prompt{in: s.in, err: s.err, person: terminal(s.in), most: most, run: one}
		return p.serve(ctx)
	}
	for _, name := range c.Files {
		source, err := readSource(name, s.in, most)
		if err != nil {
			return &exitError{exitNotRun, err}
		}
		if err := one(source); err != nil {
			return err
		}
	}
	return nil
}

// readSource reads a file, or standard input, up to one byte past most: the
// call then says what is wrong. A byte order mark is left out, as Python does.
func readSource(name string, stdin io.Reader, most int) (string, error) {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		r = f
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return "", fmt.Errorf("read code: %w", err)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if len(text) <= most && !utf8.Valid(text) {
		return "", fmt.Errorf("%s is not UTF-8 text, which Python code must be here", strconv.Quote(name))
	}
	return string(text), nil
}

// one runs a source; its error is that of the code.
func (c *runCommand) one(ctx context.Context, a *app, s streams, source string) error {
	arguments := map[string]any{"code": source}
	if c.Timeout != nil {
		arguments["timeout_seconds"] = time.Duration(*c.Timeout).Seconds()
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	result, err := a.call(ctx, &tools.Call{Tool: "code_interpreter", Arguments: raw})
	if err != nil {
		if c.JSON {
			err = errors.Join(err, encode(s.out, refusal(err)))
		}
		return &exitError{exitNotRun, err}
	}
	report, ok := result.Structured.(headline.Structured)
	if !ok {
		return errors.New("code_interpreter answered no report")
	}
	if c.JSON {
		err = encode(s.out, report)
	} else {
		err = show(s, result, report)
	}
	if err != nil {
		return err
	}
	if code := codeOf(report.Exit); code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// show prints a report for people.
func show(s streams, result tools.Result, report headline.Structured) error {
	if _, err := io.WriteString(s.out, report.Stdout); err != nil {
		return err
	}
	// The line stands by itself, whatever the code ended its output with.
	said := report.Stderr
	if last := report.Stdout + said; last != "" && !strings.HasSuffix(last, "\n") {
		said += "\n"
	}
	head, _, _ := strings.Cut(text(result), "\n")
	_, err := fmt.Fprintln(s.err, said+head)
	return err
}

// codeOf is the exit code for the way in which code ended.
func codeOf(e headline.StructuredExit) int {
	switch {
	case e.Code != nil:
		return *e.Code
	case e.Signal != 0:
		return exitSignal + e.Signal
	}
	switch e.Reason {
	case "timeout":
		return exitTimeout
	case "out_of_memory":
		return exitNoMemory
	case "stopped":
		return exitSignal + int(unix.SIGINT)
	}
	return exitNotRun // it was lost
}

// terminal says whether r is one.
func terminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
