package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

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
	Conversation string        `placeholder:"NAME" help:"Name of the conversation that the code belongs to."`
	Timeout      time.Duration `placeholder:"TIME" help:"How long each file may run, such as 90s; calls.timeout if not given."`
	JSON         bool          `help:"Print each result as JSON, one a line."`
	Files        []string      `arg:"" optional:"" name:"file" help:"Python files, run one after the other until one fails; - is standard input. Without any, a prompt."`
}

func (runCommand) Help() string {
	return `What the code prints goes to standard output and standard error; the line that an agent gets about the run goes to standard error.

Exit codes: that of the code; 124 if it ran past its limit, 137 if it was out of memory, 128 and the signal if one ended it, 125 if it was not run, 2 for a wrong command line.

Examples:
  cloche run analysis.py
  echo 'print(6*7)' | cloche run -
  cloche run`
}

// Run runs the files, or a prompt.
func (c *runCommand) Run(ctx context.Context, line *commandLine, s streams) (err error) {
	a, err := openApp(ctx, line, s.err, slog.LevelWarn, "name\x00"+c.Conversation)
	if err != nil {
		return &exitError{exitNotRun, err}
	}
	defer func() {
		if cerr := a.Close(ctx); err == nil && cerr != nil {
			err = &exitError{exitNotRun, cerr}
		}
	}()
	if len(c.Files) == 0 {
		a.warm(ctx)
		return c.prompt(ctx, a, s)
	}
	for _, name := range c.Files {
		source, err := readSource(name, s.in, int64(a.policy.Current().Calls.MaxCode))
		if err != nil {
			return &exitError{exitNotRun, err}
		}
		if err := c.one(ctx, a, s, source); err != nil {
			return err
		}
	}
	return nil
}

// readSource reads a file, or standard input, up to one byte past limit: the
// call then says what is wrong.
func readSource(name string, stdin io.Reader, limit int64) (string, error) {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		r = f
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(text), nil
}

// one runs a source; its error is that of the code.
func (c *runCommand) one(ctx context.Context, a *app, s streams, source string) error {
	arguments := map[string]any{"code": source}
	if c.Timeout != 0 {
		arguments["timeout_seconds"] = c.Timeout.Seconds()
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	result, err := a.call(ctx, &tools.Call{Tool: "code_interpreter", Arguments: raw})
	if err != nil {
		return &exitError{exitNotRun, err}
	}
	report, ok := result.Structured.(headline.Structured)
	if !ok {
		return errors.New("code_interpreter answered no report")
	}
	if c.JSON {
		if err := encode(s.out, report); err != nil {
			return err
		}
	} else if err := show(s, result, report); err != nil {
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
	if _, err := io.WriteString(s.err, report.Stderr); err != nil {
		return err
	}
	head, _, _ := strings.Cut(text(result), "\n")
	_, err := fmt.Fprintln(s.err, head)
	return err
}

func codeOf(e headline.StructuredExit) int {
	switch {
	case e.Code != nil:
		return *e.Code
	case e.Signal != 0:
		return exitSignal + e.Signal
	case e.Reason == "timeout":
		return exitTimeout
	case e.Reason == "out_of_memory":
		return exitNoMemory
	}
	return exitNotRun
}

// prompt reads entries and runs each. An entry is a line, or a block up to an
// empty line if the first line does not stand for itself.
func (c *runCommand) prompt(ctx context.Context, a *app, s streams) error {
	person := terminal(s.in)
	say := func(text string) {
		if person {
			fmt.Fprint(s.err, text)
		}
	}
	say("Each entry runs in a fresh process: variables do not stay. A block ends with an empty line. Ctrl-D ends.\n")
	in := bufio.NewScanner(s.in)
	in.Buffer(nil, int(a.policy.Current().Calls.MaxCode)+1)
	var entry []string
	for {
		if len(entry) == 0 {
			say(">>> ")
		} else {
			say("... ")
		}
		more := in.Scan()
		if more {
			entry = append(entry, in.Text())
		}
		if more && unfinished(entry) {
			continue
		}
		if source := strings.Join(entry, "\n"); strings.TrimSpace(source) != "" {
			// What the code's own exit was is in the line that is shown.
			if err := c.one(ctx, a, s, source+"\n"); err != nil && !isExit(err) {
				say(fmt.Sprintf("cloche: %s\n", readable(err)))
			}
		}
		entry = nil
		if !more || ctx.Err() != nil {
			say("\n")
			return in.Err()
		}
	}
}

// isExit says that err is nothing but the code's own exit.
func isExit(err error) bool {
	e, ok := errors.AsType[*exitError](err)
	return ok && e.err == nil
}

// unfinished says whether an entry goes on: its first line opens something, and
// its last is not empty.
func unfinished(entry []string) bool {
	first, last := strings.TrimSpace(entry[0]), entry[len(entry)-1]
	if first == "" {
		return false
	}
	opens := strings.HasSuffix(first, ":") || strings.HasSuffix(first, `\`) || strings.HasPrefix(first, "@") ||
		strings.Count(first, "(")+strings.Count(first, "[")+strings.Count(first, "{") >
			strings.Count(first, ")")+strings.Count(first, "]")+strings.Count(first, "}") ||
		strings.Count(first, `"""`)%2 == 1 || strings.Count(first, "'''")%2 == 1
	return opens && strings.TrimSpace(last) != ""
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
