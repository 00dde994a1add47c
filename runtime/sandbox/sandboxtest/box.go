package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// Limit is how long code of a test may run that does not say otherwise. It is
// for a slow machine; nothing here needs a tenth of it.
const Limit = 2 * time.Minute

// A Box is a sandbox of a test. It may be used from several goroutines as far
// as its Process may.
type Box struct {
	*pydriver.Process
	Container sandbox.Container
	tb        testing.TB
}

// A capture remembers the last sandbox that was started.
type capture struct {
	sandbox.Runner
	last sandbox.Container
}

func (c *capture) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	var err error
	c.last, err = c.Runner.Start(ctx, spec, control)
	return c.last, err
}

// Start starts a sandbox, which is destroyed with the test. Modules that are to be
// imported in advance are, if r does that at all.
func Start(tb testing.TB, r sandbox.Runner, spec sandbox.Spec, preload ...string) *Box {
	tb.Helper()
	if p, ok := r.(sandbox.Preloader); ok && len(preload) > 0 {
		spec.Preload = preload
		if err := p.Preloaded(tb.Context(), spec); err != nil {
			tb.Fatalf("import in advance: %v", err)
		}
	}
	c := &capture{Runner: r}
	p, err := pydriver.Start(tb.Context(), c, spec, preload)
	if err != nil {
		tb.Fatalf("start a sandbox: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.Destroy(context.WithoutCancel(tb.Context())); err != nil {
			tb.Errorf("destroy the sandbox: %v", err)
		}
	})
	return &Box{p, c.last, tb}
}

// A Result is what came of code.
type Result struct {
	sandbox.Exit
	Out, Err string
}

// Plain says that code ended by itself.
func (r Result) Plain() bool {
	return r.Signal == 0 && !r.TimedOut && !r.Stopped && !r.OutOfMemory && r.Lost == ""
}

// Run runs code, whatever comes of it.
func (b *Box) Run(code string) Result {
	b.tb.Helper()
	return b.RunFor(Limit, code)
}

// RunFor runs code that is ended when it has run for limit.
func (b *Box) RunFor(limit time.Duration, code string) Result {
	b.tb.Helper()
	return b.result(code, func(out, errs io.Writer) (sandbox.Exit, error) {
		return b.Process.RunFor(b.tb.Context(), limit, code, out, errs)
	})
}

// RunIn runs code until ctx ends.
func (b *Box) RunIn(ctx context.Context, code string) Result {
	b.tb.Helper()
	return b.result(code, func(out, errs io.Writer) (sandbox.Exit, error) {
		return b.Process.Run(ctx, code, out, errs)
	})
}

func (b *Box) result(code string, run func(out, errs io.Writer) (sandbox.Exit, error)) Result {
	b.tb.Helper()
	var out, errs bytes.Buffer
	exit, err := run(&out, &errs)
	if err != nil {
		b.tb.Fatalf("run %.100q: %v", code, err)
	}
	return Result{Exit: exit, Out: out.String(), Err: errs.String()}
}

// Print runs code that has to go well and returns what it printed.
func (b *Box) Print(code string) string {
	b.tb.Helper()
	r := b.Run(code)
	if !r.Plain() || r.Code != 0 || r.Err != "" {
		b.tb.Fatalf("run %.200q: %+v", code, r)
	}
	return r.Out
}

// JSON runs code that prints JSON and decodes it into v.
func (b *Box) JSON(code string, v any) {
	b.tb.Helper()
	out := b.Print(code)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		b.tb.Fatalf("decode %.200q: %v", out, err)
	}
}

// Works checks that code still runs in the sandbox.
func (b *Box) Works() {
	b.tb.Helper()
	if got := b.Print("print(1+1)"); got != "2\n" {
		b.tb.Errorf("print(1+1) printed %q afterwards, want 2", got)
	}
}

// Clean makes the sandbox ready for the next call.
func (b *Box) Clean() {
	b.tb.Helper()
	if err := b.Refresh(b.tb.Context()); err != nil {
		b.tb.Fatalf("refresh: %v", err)
	}
}

// A lookout is an output that tells when a word has been written to it.
type lookout struct {
	word  string
	found chan struct{}
	buf   bytes.Buffer
}

// Write implements io.Writer, for one goroutine.
func (l *lookout) Write(p []byte) (int, error) {
	before := bytes.Contains(l.buf.Bytes(), []byte(l.word))
	l.buf.Write(p)
	if !before && bytes.Contains(l.buf.Bytes(), []byte(l.word)) {
		close(l.found)
	}
	return len(p), nil
}

// errEnough is why Background's code is stopped.
var errEnough = errors.New("the test has seen enough")

// Background runs code in the sandbox until stop is called, which returns what
// came of it. It waits until the code has printed word.
func (b *Box) Background(word, code string) (stop func() Result) {
	b.tb.Helper()
	ctx, cancel := context.WithCancelCause(b.tb.Context())
	out, errs := &lookout{word: word, found: make(chan struct{})}, new(bytes.Buffer)
	done := make(chan Result, 1)
	go func() {
		exit, err := b.Process.Run(ctx, code, out, errs)
		if err != nil {
			b.tb.Errorf("run %.100q: %v", code, err)
		}
		done <- Result{Exit: exit, Out: out.buf.String(), Err: errs.String()}
	}()
	stop = func() Result {
		cancel(errEnough)
		r := <-done
		done <- r // for a second stop
		return r
	}
	b.tb.Cleanup(func() { stop() })
	select {
	case <-out.found:
	case r := <-done:
		done <- r
		b.tb.Fatalf("the code ended before it printed %q: %+v", word, r)
	case <-time.After(Limit):
		b.tb.Fatalf("%q was not printed within %v", word, Limit)
	}
	return stop
}
