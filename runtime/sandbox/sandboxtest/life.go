package sandboxtest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// stubborn leaves processes that ignore signals, and says so.
const stubborn = `
import os, signal, time
for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(s, signal.SIG_IGN)
for i in range(5):
    os.fork()
os.setsid() if os.getpid() != os.getsid(0) else None
print("stubborn", flush=True)
time.sleep(1000)
`

func destroyLeavesNothing(t *testing.T, r sandbox.Runner) {
	bystander := Start(t, r, Spec())
	before := Traces(t)
	b := Start(t, r, Spec())
	b.Background("stubborn", stubborn)
	during := Traces(t)
	if got := len(during.Processes) - len(before.Processes); got < 6 {
		t.Fatalf("the sandbox shows %d processes on the host, want 6 or more", got)
	}
	if os.Getuid() == 0 && len(during.Groups) <= len(before.Groups) && !watched(t, bystander) {
		t.Fatalf("the sandbox shows no control group on the host: %v", during.Groups)
	}
	if err := b.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy = %v", err)
	}
	select {
	case <-b.Gone():
	default:
		t.Error("Gone is not closed after Destroy")
	}
	during.Gone(t, before)
	bystander.Works()
}

func destroyTwice(t *testing.T, r sandbox.Runner) {
	ours, theirs := pair(t)
	defer ours.Close()
	c, err := r.Start(t.Context(), Spec(), theirs)
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := c.Destroy(t.Context()); err != nil {
				t.Errorf("Destroy = %v", err)
			}
		})
	}
	both.Wait()
	if err := c.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy of what is destroyed = %v", err)
	}
	if err := c.Refresh(t.Context()); err == nil {
		t.Error("Refresh of what is destroyed = nil, want an error")
	}
	if _, err := c.Usage(t.Context()); err == nil {
		t.Error("Usage of what is destroyed = nil, want an error")
	}
}

// pair returns both ends of a control socket.
func pair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
}

func manyAtOnce(t *testing.T, r sandbox.Runner) {
	const many = 12
	Start(t, r, Spec()) // what the Runner needs itself is there
	before := Traces(t)
	t.Run("started", func(t *testing.T) {
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				p, err := pydriver.Start(t.Context(), r, Spec(), nil)
				if err != nil {
					t.Errorf("Start = %v", err)
					return
				}
				b := &Box{p, nil, t}
				if got := b.Run("print(1+1)"); got.Out != "2\n" {
					t.Errorf("print(1+1): %+v", got)
				}
				if err := p.Destroy(t.Context()); err != nil {
					t.Errorf("Destroy = %v", err)
				}
			})
		}
		all.Wait()
	})
	Trace{}.Gone(t, before)
}

func startEnded(t *testing.T, r sandbox.Runner) {
	Start(t, r, Spec()) // what the Runner needs itself is there
	before := Traces(t)
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	ours, theirs := pair(t)
	defer ours.Close()
	defer theirs.Close()
	if c, err := r.Start(ctx, Spec(), theirs); !errors.Is(err, cause) {
		t.Errorf("Start with an ended context = %v, %v, want %v", c, err, cause)
	}
	Trace{}.Gone(t, before)
}

// startEnding ends the context at many moments of a start.
func startEnding(t *testing.T, r sandbox.Runner) {
	bystander := Start(t, r, Spec())
	before := Traces(t)
	took := time.Now()
	_ = Start(t, r, Spec()).Destroy(t.Context())
	whole := time.Since(took)
	const rounds = 20
	for i := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(i)/rounds)
		ours, theirs := pair(t)
		c, err := r.Start(ctx, Spec(), theirs)
		cancel()
		theirs.Close()
		ours.Close()
		if err == nil {
			if err := c.Destroy(t.Context()); err != nil {
				t.Errorf("Destroy = %v", err)
			}
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start whose context ended = %v, want its cause", err)
		}
	}
	Trace{}.Gone(t, before)
	bystander.Works()
}

func unknownImage(t *testing.T, r sandbox.Runner) {
	Start(t, r, Spec()) // what the Runner needs itself is there
	before := Traces(t)
	for _, image := range []string{"", "no-such-image", "../host", "host\x00", "/"} {
		spec := Spec()
		spec.Image = image
		ours, theirs := pair(t)
		c, err := r.Start(t.Context(), spec, theirs)
		theirs.Close()
		ours.Close()
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("Start of image %q = %v, %v, want a fault of kind %s", image, c, err, fault.NotFound)
		}
	}
	Trace{}.Gone(t, before)
}

func closeLeavesNothing(t *testing.T, newRunner func(t *testing.T) sandbox.Runner) {
	before := Traces(t)
	r := newRunner(t)
	b := Start(t, r, Spec())
	Start(t, r, Spec())
	b.Background("stubborn", stubborn)
	during := Traces(t)
	if err := r.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	during.Gone(t, before)
	ours, theirs := pair(t)
	defer ours.Close()
	defer theirs.Close()
	if c, err := r.Start(t.Context(), Spec(), theirs); err == nil {
		t.Errorf("Start after Close = %v, want an error", c)
	}
}
