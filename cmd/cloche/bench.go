package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/cmd/cloche/internal/bench"
)

type benchCommand struct {
	Full   bool   `help:"Measure many rounds of each thing, and what is large."`
	Rounds int    `placeholder:"N" help:"How often each thing is measured; else 21 times, 200 with --full, and what is large a few times."`
	Runc   string `placeholder:"FILE" help:"The runc to compare with; else the one in PATH, if there is one."`
	Check  bool   `help:"Exit 1 if a bar is missed."`
	JSON   bool   `help:"Print JSON."`

	Rows []string `arg:"" optional:"" name:"row" predictor:"row" help:"What to measure; everything if not given."`
}

func (benchCommand) Help() string {
	return `Measures what calls cost on this host, at an agent's client, each thing beside what it is compared with and the two in turns. It takes some minutes, with --full up to half an hour; what else the machine does meanwhile shows in the figures. The servers that it starts have a configuration and a data directory of their own, and nothing is left behind.

The table, which is one in Markdown too, has the median and the p99 of each (of fewer than 100 rounds the longest), the ratio of the medians, and the bar that cloche is to hold. What the host lacks (pandas and matplotlib, runc) is left out and named.

Rows: ` + strings.Join(bench.Names(), ", ") + `.

Exit codes: 0 if everything was measured, with --check only if also every bar is held; 1 if not; 2 for a wrong command line; 130 if it was interrupted.

Examples:
  cloche bench
  cloche bench --full --json > figures.json
  cloche bench --rounds 50 call start`
}

// Validate checks the command line for kong.
func (c *benchCommand) Validate() error {
	if c.Rounds < 0 || c.Rounds > bench.MaxRounds {
		return fmt.Errorf("--rounds is %d; from 1 to %d are possible", c.Rounds, bench.MaxRounds)
	}
	return bench.Known(c.Rows)
}

// Run measures.
func (c *benchCommand) Run(ctx context.Context, line *commandLine, s streams) error {
	if line.Config != "" || line.DataDir != "" {
		return &exitError{exitUsage, errors.New("bench has a configuration and a data directory of its own; leave --config and --data-dir out")}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := shimPath()
	if err != nil {
		return err
	}
	report, err := bench.Run(ctx, bench.Options{
		Cloche: self, Shim: program, Version: version(), Sweep: sweep, Runc: c.Runc,
		Full: c.Full, Rounds: c.Rounds, Rows: c.Rows,
		Progress: func(text string) { fmt.Fprintln(s.err, text) },
	})
	if ctx.Err() != nil {
		return &exitError{code: exitSignal + int(unix.SIGINT)}
	}
	if err != nil {
		return err
	}
	var printer bench.Printer = bench.Text{}
	if c.JSON {
		printer = bench.JSON{}
	}
	if err := printer.Print(s.out, report); err != nil {
		return err
	}
	return c.judged(report)
}

// judged is the outcome for the shell.
func (c *benchCommand) judged(r *bench.Report) error {
	if r.Count(bench.Failed) > 0 || c.Check && r.Count(bench.Above) > 0 {
		return &exitError{code: exitFailure}
	}
	return nil
}
