package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"cloche.dev/cloche/cmd/cloche/internal/bench"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/tools/headline"
	"cloche.dev/cloche/tools/mcpclient"
)

type demoCommand struct{}

func (demoCommand) Help() string {
	return `Starts the server the way an agent's client does, as a process that speaks MCP over its standard input and output, and makes calls on a public data set. Each step says what happens and what should; what comes out differently ends the demonstration.

Exit codes: 0 if every step came out as it should, 1 if not (cloche doctor may say why), 2 for a wrong command line.

Example: cloche demo`
}

// Run tells the demonstration.
func (demoCommand) Run(ctx context.Context, line *commandLine, s streams) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d := &demo{ctx: ctx, out: s.out}
	var args []string
	if line.Config != "" {
		args = append(args, "--config", line.Config)
	}
	if line.DataDir != "" {
		args = append(args, "--data-dir", line.DataDir)
	}
	d.title("1. A client starts the server")
	d.say("As an agent's program would, this one starts `cloche stdio` and speaks the Model Context Protocol with it.")
	var log lastLines
	start := time.Now()
	client, err := mcpclient.Start(ctx, mcpclient.Command{Path: self, Args: append(args, "stdio"), Stderr: &log})
	if err != nil {
		return fmt.Errorf("the server did not start; cloche doctor may say why\n%w\n%s", err, strings.TrimSpace(log.String()))
	}
	defer func() {
		if cerr := client.Close(); err == nil {
			err = cerr
		}
	}()
	d.client = client
	d.say("%s %s answered after %s; both speak protocol %s.", client.ServerName(), client.ServerVersion(), ms(time.Since(start)), client.ProtocolVersion())
	for _, step := range []func() error{d.tools, d.first, d.data, d.walls, d.limits, d.timings} {
		if err := step(); err != nil {
			return fmt.Errorf("%w\ncloche doctor may say why\n%s", err, strings.TrimSpace(log.String()))
		}
	}
	d.title("That was it")
	d.say("Give your own client this command: %s stdio", self)
	d.say("Run a file of yours the same way:   %s run FILE.py", self)
	return nil
}

// A demo is what the steps work with.
type demo struct {
	ctx    context.Context //nolint:containedctx // that of the one command it belongs to
	out    io.Writer
	client *mcpclient.Client
}

func (d *demo) title(text string) { fmt.Fprintf(d.out, "\n== %s\n\n", text) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// show prints text that came back, set off from ours.
func (d *demo) show(mark, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		fmt.Fprintf(d.out, "    %s %s", mark, line)
	}
	fmt.Fprintln(d.out)
}

// call runs code the way an agent does.
func (d *demo) call(code string, seconds float64) (text string, report headline.Structured, took time.Duration, err error) {
	arguments := map[string]any{"code": code}
	if seconds != 0 {
		arguments["timeout_seconds"] = seconds
	}
	start := time.Now()
	result, err := d.client.Call(d.ctx, "code_interpreter", arguments)
	took = time.Since(start)
	if err != nil {
		return "", report, took, err
	}
	text = strings.Join(result.Text, "\n")
	if result.IsError {
		return "", report, took, errors.New(text)
	}
	return text, report, took, json.Unmarshal(result.Structured, &report)
}

// run shows code, runs it, shows the result and checks it.
func (d *demo) run(code string, seconds float64, good func(headline.Structured) bool) error {
	d.show(">", code)
	text, report, took, err := d.call(code, seconds)
	if err != nil {
		return err
	}
	d.show("|", text)
	if !good(report) {
		return fmt.Errorf("this did not come out as it should (after %s)", ms(took))
	}
	return nil
}

func exitZero(r headline.Structured) bool { return r.Exit.Code != nil && *r.Exit.Code == 0 }

func (d *demo) tools() error {
	list, err := d.client.Tools(d.ctx)
	if err != nil {
		return err
	}
	d.say("It offers:")
	for _, t := range list {
		d.say("    %-18s %s", t.Name, t.Title)
	}
	return nil
}

func (d *demo) first() error {
	d.title("2. The client runs code")
	d.say("What follows `>` is what an agent sends, what follows `|` is all that it gets back. The line in brackets says how it went.")
	return d.run("import sys\nprint('hello from Python', sys.version.split()[0])\n6 * 7", 0, func(r headline.Structured) bool {
		return exitZero(r) && strings.HasSuffix(strings.TrimSpace(r.Stdout), "42")
	})
}

// ms prints a time in milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// timings compares calls with a bare interpreter.
func (d *demo) timings() error {
	d.title("6. What it costs")
	const rounds = 21
	var isolated, bare []time.Duration
	for range rounds {
		_, report, took, err := d.call("print(1+1)", 0)
		if err != nil {
			return err
		}
		if !exitZero(report) || report.Stdout != "2\n" {
			return fmt.Errorf("print(1+1) answered %q", report.Stdout)
		}
		isolated = append(isolated, took)
		start := time.Now()
		if out, err := exec.CommandContext(d.ctx, rootfs.Python, "-c", "print(1+1)").Output(); err != nil || string(out) != "2\n" {
			return fmt.Errorf("bare Python: %q, %w", out, err)
		}
		bare = append(bare, time.Since(start))
	}
	a, b := bench.Median(isolated), bench.Median(bare)
	d.say("print(1+1), %d times each, medians:", rounds)
	d.say("    isolated, from the client and back  %9s", ms(a))
	d.say("    bare python3 -c, no protection      %9s", ms(b))
	d.say("    ratio                               %9.2f", float64(a)/float64(b))
	return nil
}
