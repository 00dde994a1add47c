package pydriver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// fakeProcess returns a Process whose sandbox is a fake.
func fakeProcess(t *testing.T, f *sandboxtest.Fake, preload ...string) (*pydriver.Process, *sandboxtest.FakeBox) {
	t.Helper()
	p, err := pydriver.Start(t.Context(), f, sandboxtest.Spec(), preload)
	if err != nil {
		t.Fatalf("Start = %v", err)
	}
	t.Cleanup(func() {
		if err := p.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Destroy = %v", err)
		}
	})
	return p, f.Boxes()[len(f.Boxes())-1]
}

// TestStrangeParent: a parent that says what ours never does, as one would that
// was taken over, ends its sandbox; it holds nothing up.
func TestStrangeParent(t *testing.T) {
	for _, message := range []string{
		"done 0", "done 0\x00", "done", "done x", "done 99999999999999999999", "ready again", "loaded more 0.1", "skipped more why", "run", "\xff\xfe",
		strings.Repeat("x", 60<<10),
	} {
		t.Run(fmt.Sprintf("%.20q", message), func(t *testing.T) {
			p, b := fakeProcess(t, &sandboxtest.Fake{}, "one")
			go func() { // which may have to wait until nobody reads any more
				b.Send("loaded one 0.1")
				for range 10 {
					b.Send(message)
				}
			}()
			select {
			case <-p.Gone():
			case <-time.After(sandboxtest.Limit):
				t.Fatal("the sandbox is still taken for one")
			}
			exit, err := p.Run(t.Context(), "1", io.Discard, io.Discard)
			if err == nil && exit.Lost == "" {
				t.Errorf("Run = %+v, nil, want it to be lost", exit)
			}
		})
	}
}

func TestModules(t *testing.T) {
	p, b := fakeProcess(t, &sandboxtest.Fake{}, "one", "two")
	b.Send("loaded one 0.1")
	b.Send("skipped two ModuleNotFoundError(\"No module named 'two'\")")
	var out bytes.Buffer
	if _, err := p.Run(t.Context(), "after them", &out, io.Discard); err != nil || out.String() != "after them" {
		t.Fatalf("Run printed %q, %v", out.String(), err)
	}
	version, loaded, skipped := p.Modules()
	if version != "3.11.2" || fmt.Sprint(loaded) != "[one]" || !strings.Contains(skipped["two"], "No module") {
		t.Errorf("Modules() = %q, %v, %v", version, loaded, skipped)
	}
}

// TestNotReady: a parent that dies before it is ready, or never is.
func TestNotReady(t *testing.T) {
	f := &dying{}
	_, err := pydriver.Start(t.Context(), f, sandboxtest.Spec(), nil)
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Start of a parent that dies = %v, want a fault of kind %s", err, fault.Unavailable)
	}
	cause := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan struct{})
	go func() {
		<-started
		cancel(cause)
	}()
	silent := &dying{silent: true, started: started}
	if _, err := pydriver.Start(ctx, silent, sandboxtest.Spec(), nil); !errors.Is(err, cause) {
		t.Errorf("Start of a parent that says nothing = %v, want %v", err, cause)
	}
	if f.destroyed != 1 || silent.destroyed != 1 {
		t.Errorf("destroyed %d and %d times, want once each", f.destroyed, silent.destroyed)
	}
}

// TestSandboxThatCannotBeStarted leaves nothing open, which goleak sees.
func TestSandboxThatCannotBeStarted(t *testing.T) {
	broken := errors.New("broken")
	f := &sandboxtest.Fake{StartErr: func(context.Context, sandbox.Spec) error { return broken }}
	if _, err := pydriver.Start(t.Context(), f, sandboxtest.Spec(), nil); !errors.Is(err, broken) {
		t.Errorf("Start = %v, want %v", err, broken)
	}
}

// TestUnresponsiveParent: one that does not say how the call ended is given up
// some time after the call was told to stop.
func TestUnresponsiveParent(t *testing.T) {
	hang := make(chan struct{})
	f := &sandboxtest.Fake{Call: func(_ *sandboxtest.FakeBox, _ string, out, _ io.Writer, _ <-chan struct{}) int {
		_, _ = io.WriteString(out, "part")
		<-hang
		return 0
	}}
	p, b := fakeProcess(t, f)
	go func() {
		<-b.Destroyed
		close(hang)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	exit, err := p.Run(ctx, "1", &out, io.Discard)
	if err != nil || exit.Lost == "" || !exit.TimedOut || out.String() != "part" {
		t.Errorf("Run = %+v, %v, printed %q, want it to be lost and timed out", exit, err, out.String())
	}
}

// A dying is a Runner whose sandboxes are of no use.
type dying struct {
	silent    bool
	started   chan struct{}
	destroyed int
	control   *os.File
}

func (d *dying) Start(_ context.Context, _ sandbox.Spec, control *os.File) (sandbox.Container, error) {
	if d.silent {
		fd, err := unix.Dup(int(control.Fd()))
		if err != nil {
			return nil, err
		}
		d.control = os.NewFile(uintptr(fd), "control")
		close(d.started)
	}
	return d, nil
}

func (d *dying) Refresh(context.Context) error                { return nil }
func (d *dying) Usage(context.Context) (sandbox.Usage, error) { return sandbox.Usage{}, nil }
func (d *dying) Close() error                                 { return nil }

func (d *dying) Destroy(context.Context) error {
	d.destroyed++
	if d.control != nil {
		return d.control.Close()
	}
	return nil
}
