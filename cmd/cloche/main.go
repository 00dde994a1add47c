// Command cloche is an MCP server that gives an agent a Linux workspace it can
// trust, and the commands of those who operate it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"cloche.dev/cloche/cmd/cloche/internal/doctor"
)

// Exit codes that every command shares.
const (
	exitOK      = 0
	exitFailure = 1 // what was asked for did not succeed
	exitUsage   = 2 // the command line is wrong
)

// A command line, as kong reads it.
type commandLine struct {
	Config  string `placeholder:"FILE" type:"path" help:"Configuration file. Else /etc/cloche/config.toml, or ~/.config/cloche/config.toml for an ordinary user; without a file the defaults hold."`
	DataDir string `placeholder:"DIR" type:"path" help:"Data directory. Else $$CLOCHE_DATA_DIR, else /var/lib/cloche for root, else ~/.local/state/cloche."`

	Stdio      stdioCommand      `cmd:"" help:"Serve one MCP client on standard input and output."`
	Run        runCommand        `cmd:"" help:"Run Python files the way an agent's code is run."`
	Call       callCommand       `cmd:"" help:"Call a tool and print its result."`
	Demo       demoCommand       `cmd:"" help:"See an agent's client at work on real data, step by step."`
	Doctor     doctorCommand     `cmd:"" help:"Say what this host can do, what is missing, and the command that mends it."`
	Bench      benchCommand      `cmd:"" help:"Measure what calls cost on this host, beside what they are compared with."`
	Policy     policyCommand     `cmd:"" help:"Check or show the policy."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
	Completion completionCommand `cmd:"" help:"Print what makes your shell complete cloche's commands."`
}

// A streams is what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// An exitError ends the program with its code; a nil err says nothing more.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() {
	doctor.Init()
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// run runs one command and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var line commandLine
	ended := -1 // kong ends the program after --help
	parser := kong.Must(&line,
		kong.Name("cloche"),
		kong.Description("An MCP server that gives an agent a Linux workspace it can trust: code runs in a container without network and without credentials."),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { ended = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s, &line),
	)
	if completed(parser, os.Getenv) {
		return exitOK
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if ended >= 0 {
		return ended
	}
	if err != nil {
		fmt.Fprintf(s.err, "cloche: %v\nTry: %s --help\n", err, asked(err))
		return exitUsage
	}
	return exitCode(k.Run(), s.err)
}

// asked is the command that a wrong command line is about, as it is typed.
func asked(err error) string {
	words := []string{"cloche"}
	if e, ok := errors.AsType[*kong.ParseError](err); ok {
		for _, p := range e.Context.Path {
			if p.Command != nil {
				words = append(words, p.Command.Name)
			}
		}
	}
	return strings.Join(words, " ")
}

// exitCode says what went wrong, if anything did, and returns the exit code.
func exitCode(err error, w io.Writer) int {
	if err == nil {
		return exitOK
	}
	code := exitFailure
	if e, ok := errors.AsType[*exitError](err); ok {
		code, err = e.code, e.err
	}
	if err != nil {
		fmt.Fprintf(w, "cloche: %v\n", readable(err))
	}
	return code
}
