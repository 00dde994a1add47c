package shim

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// serverVariable makes the test program a server that holds a Runner, whose
// instance it names, until it is killed; see hold.
const serverVariable = "CLOCHE_TEST_SERVER"

func TestMain(m *testing.M) {
	instance := os.Getenv(serverVariable)
	if instance == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := hold(instance); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hold runs endless code in two sandboxes and says so; then it starts more and
// ends them, without end. Its argument is the path of
// the shim.
func hold(instance string) error {
	ctx := context.Background()
	r := New(Options{Path: os.Args[1], Instance: instance, Log: slog.New(slog.DiscardHandler), Stderr: os.Stderr})
	for range 2 {
		p, err := pydriver.Start(ctx, r, sandboxtest.Spec(), nil)
		if err != nil {
			return err
		}
		begun, says := io.Pipe()
		go func() { _, _ = p.Run(ctx, stubborn, says, os.Stderr) }()
		if _, err := io.ReadFull(begun, make([]byte, len("begun"))); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, "running")
	for {
		p, err := pydriver.Start(ctx, r, sandboxtest.Spec(), nil)
		if err != nil {
			return err
		}
		if err := p.Destroy(ctx); err != nil {
			return err
		}
	}
}

// stubborn is code whose processes take no signal.
const stubborn = `
import os, signal, time
for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(s, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(0.01)
os.write(1, b"begun")
while True:
    time.sleep(1)
`

// newRunner returns a Runner with the real shim; it is closed with the test.
func newRunner(tb testing.TB) *Runner {
	tb.Helper()
	need.Namespaces(tb)
	need.Python(tb)
	r := New(Options{
		Path: need.Shim(tb), Instance: newInstance(),
		Log: slog.New(slog.NewTextHandler(tb.Output(), nil)), Stderr: tb.Output(),
	})
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Errorf("close the runner: %v", err)
		}
	})
	return r
}

// newInstance returns a name that nobody else on this host has.
func newInstance() string { return "test-" + strings.ToLower(rand.Text()) }
