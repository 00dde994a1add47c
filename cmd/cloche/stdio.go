package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"cloche.dev/cloche/tools/code"
	"cloche.dev/cloche/tools/mcp"
)

// icon is shown by clients beside the server's name and its tools: a bell of
// glass over a plant.
const icon = "data:image/svg+xml," +
	"%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32' fill='none' stroke='%23277a55' stroke-width='2' stroke-linecap='round'%3E" +
	"%3Cpath d='M6 27V15a10 10 0 0 1 20 0v12M3 27h26M16 5V3M16 27V15M16 20q-5 0-5-5 5 0 5 5M16 17q5 0 5-5-5 0-5 5'/%3E%3C/svg%3E"

// instructions are what a model reads of the server before any tool.
const instructions = `cloche runs Python for you in a container of its own: no network, no credentials, nothing of the host.
code_interpreter runs code and answers in one line how it ran, then what it printed. sandbox_status tells limits and installed packages; ask it before you rely on one.
Every call is a fresh process with an empty /work and /tmp: bring what the code needs in the code, and print what you want to know.`

type stdioCommand struct {
	Conversation string `placeholder:"NAME" help:"Name of the conversation that calls belong to if they do not say. Else the client's session, else a new one."`
}

func (stdioCommand) Help() string {
	return `Standard output carries MCP alone; the log goes to standard error. The server ends with its client (end of input), or at SIGTERM; calls in flight get the time of server.stop_grace. SIGHUP reads the configuration again.

Exit codes: 0 after an orderly end, 1 if the server could not start, 2 for a wrong command line.

Example, for a client's configuration: {"command": "cloche", "args": ["stdio"]}`
}

// Run serves until the client or a signal ends it.
func (c *stdioCommand) Run(ctx context.Context, line *commandLine, s streams) (err error) {
	// A client that is gone shows as an error of a write, so that calls in flight
	// still end in order. Notify, for what is ignored stays so in child processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a, err := openApp(ctx, line, s.err, slog.LevelDebug, c.hint(os.Getenv))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := a.Close(ctx); err == nil {
			err = cerr
		}
	}()
	defer a.follow(ctx)()
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryFor(code.MaxCall(a.policy.Current())))
	}
	a.warm(ctx)
	if terminal(s.in) {
		fmt.Fprintln(s.err, "cloche stdio speaks the Model Context Protocol with the client that starts it, here with you; cloche demo shows such a client at work, Ctrl-D ends this.")
	}
	server := mcp.New(mcp.Options{
		Name: "cloche", Title: "cloche", Version: version(),
		Description:  "A Linux workspace for agents: Python in a container without network and without credentials.",
		Instructions: instructions, Icon: icon, Tools: a.tools, Log: a.log,
		MaxCall: func() int { return code.MaxCall(a.policy.Current()) },
	})
	return server.Stdio(ctx, s.in, s.out, time.Duration(a.policy.Current().Server.StopGrace))
}

// memoryFor is how much memory the server is to do with, where calls have so many
// bytes at most. Near it garbage is collected sooner: a call that is large may
// not make a server large that was small.
func memoryFor(maxCall int) int64 {
	const idle = 16 << 20
	return idle + 2*int64(maxCall)
}

// hint tells this process's conversation from others: by its name, by the
// client's session, or as one of its own.
func (c *stdioCommand) hint(env func(string) string) string {
	if c.Conversation != "" {
		return "name\x00" + c.Conversation
	}
	for _, key := range []string{"CLAUDE_CODE_SESSION_ID", "GROK_SESSION_ID"} {
		if id := env(key); id != "" {
			return key + "\x00" + id
		}
	}
	return "process\x00" + rand.Text()
}
