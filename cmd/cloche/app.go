package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/runtime/instance"
	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/shim"
	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/chain"
	"cloche.dev/cloche/tools/code"
)

// localUser is the principal of stdio and of the command line.
const localUser = "local"

// An app is a server put together: everything but the way calls come in.
type app struct {
	policy   *config.Store
	log      *slog.Logger
	tools    []tools.Tool
	kept     *lastLines // of the log, if nobody reads it otherwise
	instance *instance.Instance
	runner   *shim.Runner
	gate     *admission.Gate
	pool     *pool.Pool
	set      *conversation.Set
}

// openApp puts a server together, which logs to stderr what is at least of that
// level. Its calls belong, if they do not say otherwise, to the conversation of
// hint. It is the caller's to close.
func openApp(ctx context.Context, line *commandLine, stderr io.Writer, least slog.Level, hint string) (*app, error) {
	path, err := config.Find(line.Config)
	if err != nil {
		return nil, err
	}
	policy, err := config.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	log := logger(stderr, policy.Current().Log, least)
	if policy, err = config.Open(path, log); err != nil {
		return nil, err
	}
	dir, err := instance.DataDir(line.DataDir, os.Getuid(), os.Getenv)
	if err != nil {
		return nil, err
	}
	own, err := instance.Open(dir, sweep)
	if own == nil {
		return nil, err
	}
	if err != nil {
		log.WarnContext(ctx, "clear up after a server that died", slog.Any("error", err))
	}
	program, err := shimPath()
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	a := &app{policy: policy, log: log, instance: own}
	a.runner = shim.New(shim.Options{Path: program, Instance: own.Name, Log: log, Stderr: stderr})
	life := context.WithoutCancel(ctx) // sandboxes outlive the signal that stops the server, for its grace
	a.gate = newGate(life, policy, own.Name)
	a.pool = pool.New(life, pool.Options{Runner: a.runner, Gate: a.gate, Log: log})
	a.set = conversation.NewSet(life, conversation.Options{Pool: a.pool, Gate: a.gate, Log: log})
	a.assemble(hint)
	return a, nil
}

// openQuiet is openApp for a command that answers a person: the log is shown
// with errors that nothing else explains. The id of the conversation is kept out
// of head lines, for it is of no use once this process has ended.
func openQuiet(ctx context.Context, line *commandLine, hint string) (*app, error) {
	kept := new(lastLines)
	a, err := openApp(ctx, line, kept, slog.LevelWarn, hint)
	if err != nil {
		return nil, err
	}
	a.kept = kept
	a.set.ByHint(localUser, hint).Tell()
	return a, nil
}

// assemble makes the tools, with the chain around each.
func (a *app) assemble(hint string) {
	c := &chain.Chain{Policy: a.policy.Current, Conversations: a.set, Principal: localUser, Hint: hint, Log: a.log}
	status := code.StatusOptions{
		Version: version(), Pool: a.pool, Conversations: a.set, Inventory: inventory.New(a.runner),
		Limited: a.runner.Limited, PolicyError: a.policy.LastError,
	}
	for _, t := range []tools.Tool{code.Interpreter(a.pool), code.Status(status)} {
		a.tools = append(a.tools, c.Wrap(t))
	}
}

// follow takes a new policy whenever the configuration file changes, and at
// SIGHUP. The function it returns ends that, and waits for it.
func (a *app) follow(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	var work sync.WaitGroup
	work.Go(func() { a.policy.Watch(ctx, hup) })
	return func() {
		cancel()
		work.Wait()
		signal.Stop(hup)
	}
}

// warm starts what the first call will need. What fails, the call will tell.
func (a *app) warm(ctx context.Context) {
	p := a.policy.Current()
	a.pool.Keep(ctx, code.Kind(p), p.Pool.Warm)
}

// call calls a tool the way a client would.
func (a *app) call(ctx context.Context, call *tools.Call) (tools.Result, error) {
	var names []string
	for _, t := range a.tools {
		if t.Name == call.Tool {
			result, err := t.Run(ctx, call)
			return result, a.explained(err)
		}
		names = append(names, t.Name)
	}
	return tools.Result{}, fault.New(fault.NotFound, "no tool %q; there are %s", call.Tool, strings.Join(names, ", "))
}

// explained adds to an error that is our own fault what was kept of the log.
func (a *app) explained(err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal || a.kept == nil || a.kept.String() == "" {
		return err
	}
	return fmt.Errorf("%w\nThe log:\n%s", err, strings.TrimSpace(a.kept.String()))
}

// Close ends sandboxes and the shim and gives the instance's name up.
// Preconditions: no call runs.
func (a *app) Close(ctx context.Context) error {
	a.set.Close(ctx)
	a.pool.Close(ctx)
	a.gate.Close()
	return errors.Join(a.runner.Close(), a.instance.Close())
}

// sweep removes what a server that died has left: control groups, and whatever
// still runs in them.
func sweep(name string) error {
	g := cgroup.Find(name)
	g.Kill()
	return g.Remove(5 * time.Second)
}

// shimPath finds the shim: beside this program, else where the environment says.
func shimPath() (string, error) {
	const name = "cloche-shim"
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	if path := os.Getenv("CLOCHE_SHIM"); path != "" {
		return path, nil
	}
	return "", fault.New(fault.Unavailable,
		"%s is neither beside cloche (%s) nor named in CLOCHE_SHIM; build both programs: go build -o DIR ./cmd/...", name, filepath.Dir(self))
}
