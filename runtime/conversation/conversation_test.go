package conversation

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
	"cloche.dev/cloche/runtime/shim"
)

// TestStrangeNames: what is not the principal's own id is all one.
func TestStrangeNames(t *testing.T) {
	s := newSet(t, &sandboxtest.Fake{}, 1)
	mine := s.New("a")
	_, unknown := s.ByID("a", "c-aaaaaaaaaaaaaaaaaaaaaaaaaa")
	for _, id := range []string{"", "c-", "../" + mine.ID, mine.ID + "\x00", strings.ToUpper(mine.ID), mine.ID[:10]} {
		if _, err := s.ByID("a", id); err == nil || err.Error() != unknown.Error() {
			t.Errorf("ByID(%q) = %v, want %v", id, err, unknown)
		}
	}
	if s.ByHint("a\x00b", "c") == s.ByHint("a", "b\x00c") {
		t.Error("two principals meet where the border between principal and hint is moved")
	}
	if s.ByHint("a", mine.ID) == mine {
		t.Error("an id was taken as a hint")
	}
}

// TestForgettingSparesTheBusy: one that waits for its sandbox is not forgotten,
// for then nobody would end that.
func TestForgettingSparesTheBusy(t *testing.T) {
	starting, release := make(chan struct{}), make(chan struct{})
	fake := &sandboxtest.Fake{StartErr: func(context.Context, sandbox.Spec) error {
		close(starting)
		<-release
		return nil
	}}
	s := newSet(t, fake, 1)
	c := s.New("p")
	var done sync.WaitGroup
	done.Go(func() {
		if _, _, err := run(t, c, job("x", time.Minute)); err != nil {
			t.Error(err)
		}
	})
	<-starting
	for range maxKnown + 5 {
		s.New("p")
	}
	if _, err := s.ByID("p", c.ID); err != nil {
		t.Errorf("a conversation whose sandbox is being started: %v, want it to be known", err)
	}
	close(release)
	done.Wait()
}

// TestTheLongestIdleMakesRoom and not one that was used since.
func TestTheLongestIdleMakesRoom(t *testing.T) {
	fake := &sandboxtest.Fake{}
	s := newSet(t, fake, 3)
	var list []*Conversation
	for i := range 3 {
		c := s.New("p")
		list = append(list, c)
		if _, _, err := run(t, c, job(fmt.Sprint(i), time.Minute)); err != nil {
			t.Fatal(err)
		}
		waitFree(t, c)
	}
	// The first is used again; now the second is the one.
	if _, _, err := run(t, list[0], job("again", time.Minute)); err != nil {
		t.Fatal(err)
	}
	waitFree(t, list[0])
	if _, _, err := run(t, s.New("p"), job("new", time.Minute)); err != nil {
		t.Fatal(err)
	}
	var live []int
	for _, b := range fake.Live() {
		live = append(live, b.Number)
	}
	if fmt.Sprint(live) != "[1 3 4]" {
		t.Errorf("sandboxes that live = %v, want [1 3 4]: the second was idle for longest", live)
	}
}

// TestIdleTimeBeginsAnew with each call, and is not over before its end.
func TestIdleTimeBeginsAnew(t *testing.T) {
	fake := &sandboxtest.Fake{}
	s := newSet(t, fake, 1)
	c := s.New("p")
	const idle = time.Second
	var last time.Time
	for range 5 {
		if _, _, err := run(t, c, job("x", idle)); err != nil {
			t.Fatal(err)
		}
		last = time.Now()
		<-time.After(idle / 3)
	}
	boxes := fake.Boxes()
	if len(boxes) != 1 {
		t.Fatalf("%d sandboxes, want the one that calls keep from being idle too long", len(boxes))
	}
	<-boxes[0].Destroyed
	if took := time.Since(last); took < idle {
		t.Errorf("the sandbox ended %v after the last call, want %v or more", took, idle)
	}
}

func TestCallThatCannotStart(t *testing.T) {
	broken := errors.New("broken")
	var fails error
	fake := &sandboxtest.Fake{StartErr: func(context.Context, sandbox.Spec) error { return fails }}
	s := newSet(t, fake, 1)
	a, b := s.New("p"), s.New("p")
	fails = broken
	for range 3 {
		if _, _, err := run(t, a, job("x", time.Minute)); !errors.Is(err, broken) {
			t.Errorf("Run = %v, want %v", err, broken)
		}
	}
	fails = nil
	// What failed counts no more, and holds no turn.
	for _, c := range []*Conversation{a, b, a} {
		if out, _, err := run(t, c, job("x", time.Minute)); out != "x" || err != nil {
			t.Errorf("Run = %q, %v", out, err)
		}
		waitFree(t, c)
	}
}

// TestSandboxGoneBeforeItsCall: a call whose sandbox cannot be had because its
// shim ended is tried again, a few times, and not if the client wants no more.
func TestSandboxGoneBeforeItsCall(t *testing.T) {
	gone := fault.New(fault.Gone, "the sandbox has ended with its shim; call again")
	starts := 0
	var fails func() error
	s := newSet(t, &sandboxtest.Fake{StartErr: func(context.Context, sandbox.Spec) error {
		starts++
		return fails()
	}}, 1)
	for _, tt := range []struct {
		name        string
		fail, tries int
		err         error
	}{{"never", 0, 1, nil}, {"once", 1, 2, nil}, {"three times", 3, 4, nil}, {"always", 100, 4, gone}} {
		t.Run(tt.name, func(t *testing.T) {
			starts = 0
			fails = func() error {
				if starts <= tt.fail {
					return gone
				}
				return nil
			}
			c := s.New("p")
			if out, _, err := run(t, c, job("x", time.Minute)); !errors.Is(err, tt.err) || starts != tt.tries || err == nil && out != "x" {
				t.Errorf("Run = %q, %v after %d starts, want %v after %d", out, err, starts, tt.err, tt.tries)
			}
			waitFree(t, c)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	starts = 0
	fails = func() error {
		cancel()
		return gone
	}
	c := s.New("p")
	turn, err := c.Enter(ctx, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(ctx, turn, job("x", time.Minute)); err == nil || starts != 1 {
		t.Errorf("Run of a call that was cancelled = %v after %d starts, want an error after 1", err, starts)
	}
}

func TestTimeOutIsToldFromStop(t *testing.T) {
	fake := &sandboxtest.Fake{Call: func(_ *sandboxtest.FakeBox, _ string, _, _ io.Writer, stop <-chan struct{}) int {
		<-stop
		return 0
	}}
	c := newSet(t, fake, 1).New("p")
	j := job("x", time.Minute)
	j.Timeout = time.Millisecond
	if _, exit, err := run(t, c, j); err != nil || !exit.TimedOut || exit.Stopped {
		t.Errorf("Run past its limit = %+v, %v", exit, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	turn, err := c.Enter(ctx, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { cancel(fault.New(fault.Gone, "the client went away")) })
	j = job("x", time.Minute)
	j.Stdout = io.Discard
	if exit, err := c.Run(ctx, turn, j); err == nil && (!exit.Stopped || exit.TimedOut) {
		t.Errorf("Run that is cancelled = %+v, want it stopped", exit)
	}
	waitFree(t, c)
}

// TestNoSandboxIsShared: however conversations press for few sandboxes that
// idle out, die and are evicted, a sandbox only ever sees one of them.
func TestNoSandboxIsShared(t *testing.T) {
	var mu sync.Mutex
	owner := map[int]string{}
	inUse := map[int]bool{}
	fake := &sandboxtest.Fake{}
	fake.Call = func(b *sandboxtest.FakeBox, code string, out, _ io.Writer, _ <-chan struct{}) int {
		mu.Lock()
		if owner[b.Number] == "" {
			owner[b.Number] = code
		}
		if owner[b.Number] != code || inUse[b.Number] {
			t.Errorf("sandbox %d of %s is used by %s; in use: %v", b.Number, owner[b.Number], code, inUse[b.Number])
		}
		inUse[b.Number] = true
		mu.Unlock()
		<-time.After(time.Duration(b.Number%3) * time.Millisecond)
		fmt.Fprint(out, code)
		mu.Lock()
		inUse[b.Number] = false
		mu.Unlock()
		return 0
	}
	s := newSet(t, fake, 4)
	var all sync.WaitGroup
	for i := range 10 {
		c := s.New(fmt.Sprint("p", i))
		all.Go(func() {
			for n := range 40 {
				out, exit, err := run(t, c, job(c.ID, time.Duration(n%4)*time.Millisecond))
				switch {
				case fault.KindOf(err) == fault.Busy:
					<-time.After(time.Millisecond)
				case err != nil:
					t.Errorf("Run = %+v, %v", exit, err)
				case exit.Lost == "" && out != c.ID:
					t.Errorf("Run = %q, want %q", out, c.ID)
				}
			}
		})
	}
	all.Wait()
	if n := len(fake.Live()); n > 4 {
		t.Errorf("%d sandboxes live, want at most 4", n)
	}
}

// TestRealSandboxes: what a call of one conversation leaves, none of another
// finds, nor does a later call of its own.
func TestRealSandboxes(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Namespaces(t)
		need.Python(t)
		r := shim.New(shim.Options{
			Path: need.Shim(t), Instance: "test-" + strings.ToLower(rand.Text()),
			Log: slog.New(slog.DiscardHandler), Stderr: t.Output(),
		})
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		p := pool.New(t.Context(), pool.Options{Runner: r, Log: log})
		s := NewSet(t.Context(), Options{Pool: p, Log: log})
		defer func() {
			ctx := context.WithoutCancel(t.Context())
			s.Close(ctx)
			p.Close(ctx)
			if err := r.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}()
		const code = `
import os
for d in "/work", "/tmp", "/dev/shm":
    print(sorted(set(os.listdir(d)) - {"home"}), end=" ")
    open(d + "/mark", "w").close()
`
		for i, c := range []*Conversation{s.New("a"), s.New("b"), s.New("c")} {
			for range 3 {
				var errs bytes.Buffer
				j := job(code, time.Minute)
				j.Stderr = &errs
				if out, exit, err := run(t, c, j); out != "[] [] [] " || err != nil || exit.Code != 0 {
					t.Errorf("conversation %d: %q, %+v, %v, %s", i, out, exit, err, errs.String())
				}
			}
		}
	})
}
