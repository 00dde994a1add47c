package conversation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// TestSandboxesAreBounded: where all are in use callers are told, where one is
// idle it makes room.
func TestSandboxesAreBounded(t *testing.T) {
	fake := &sandboxtest.Fake{}
	release := make(chan struct{})
	fake.Call = func(_ *sandboxtest.FakeBox, code string, out, _ io.Writer, stop <-chan struct{}) int {
		if code == "wait" {
			select {
			case <-release:
			case <-stop:
				return int(unix.SIGKILL)
			}
		}
		fmt.Fprint(out, code)
		return 0
	}
	s := newSetWith(t, fake, admission.Options{
		Capacity: func() admission.Capacity { return admission.Capacity{Sandboxes: 2} },
		Patience: 100 * time.Millisecond,
	})
	a, b, c := s.New("p"), s.New("p"), s.New("p")
	var busy sync.WaitGroup
	for _, conv := range []*Conversation{a, b} {
		busy.Go(func() {
			if _, _, err := run(t, conv, job("wait", time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
	for len(fake.Boxes()) < 2 {
		<-time.After(time.Millisecond)
	}
	for _, box := range fake.Boxes() {
		for _, calls := box.Counts(); calls == 0; _, calls = box.Counts() {
			<-time.After(time.Millisecond)
		}
	}
	if _, _, err := run(t, c, job("c", time.Minute)); fault.KindOf(err) != fault.Busy {
		t.Errorf("a third conversation while two sandboxes are in use: %v, want busy", err)
	}
	close(release)
	busy.Wait()
	waitFree(t, a, b)
	if out, _, err := run(t, c, job("c", time.Minute)); out != "c" || err != nil {
		t.Errorf("a third conversation while two are idle: %q, %v", out, err)
	}
	if n := len(fake.Live()); n != 2 {
		t.Errorf("%d sandboxes live, want 2", n)
	}
}

// TestRoomIsGivenInOrder: calls for whose conversations there is no room wait, and
// get it in the order in which they came; one that is cancelled gives up its
// place.
func TestRoomIsGivenInOrder(t *testing.T) {
	fake := &sandboxtest.Fake{}
	release := make(chan struct{})
	var served, want []string
	fake.Call = func(_ *sandboxtest.FakeBox, code string, _, _ io.Writer, _ <-chan struct{}) int {
		if code == "first" {
			<-release
		} else {
			served = append(served, code) // one at a time: there is one sandbox
		}
		return 0
	}
	s := newSet(t, fake, 1)
	waiting := s.gate.Waiting
	var all sync.WaitGroup
	all.Go(func() {
		if _, _, err := run(t, s.New("p"), job("first", time.Minute)); err != nil {
			t.Error(err)
		}
	})
	for len(fake.Boxes()) < 1 || waiting() > 0 {
		<-time.After(time.Millisecond)
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	unwanted := errors.New("the client wants it no more")
	for n := range 20 {
		c, ctx, code := s.New("p"), t.Context(), fmt.Sprint(n)
		if n%3 == 0 {
			ctx = cancelled
		} else {
			want = append(want, code)
		}
		all.Go(func() {
			turn, err := c.Enter(ctx, 1, 0)
			if err != nil {
				t.Error(err)
				return
			}
			j := job(code, time.Minute)
			j.Stdout = io.Discard
			_, err = c.Run(ctx, turn, j)
			switch {
			case n%3 == 0 && errors.Is(err, unwanted):
			case n%3 == 0 || err != nil:
				t.Errorf("call %d: %v", n, err)
			}
		})
		for waiting() <= n {
			<-time.After(time.Millisecond)
		}
	}
	cancel(unwanted)
	for waiting() > len(want) {
		<-time.After(time.Millisecond)
	}
	close(release)
	all.Wait()
	if diff := cmp.Diff(want, served); diff != "" || waiting() != 0 {
		t.Errorf("served in the order (-want +got):\n%s; %d wait", diff, waiting())
	}
}

// TestBriskConversationsAreSpared: one that makes call after call keeps its
// sandbox while others come and go, unless there is no other that could end.
func TestBriskConversationsAreSpared(t *testing.T) {
	fake := &sandboxtest.Fake{}
	s := newSet(t, fake, 2)
	c := s.New("p")
	for range 2 {
		if _, _, err := run(t, c, job("x", time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		other := s.New("p")
		if _, _, err := run(t, other, job("y", time.Minute)); err != nil {
			t.Fatal(err)
		}
		waitFree(t, other)
		if _, _, err := run(t, c, job("x", time.Minute)); err != nil {
			t.Fatal(err)
		}
		waitFree(t, c)
	}
	if boxes := fake.Boxes(); len(boxes) != 11 {
		t.Errorf("%d sandboxes were started, want 11: one for each conversation", len(boxes))
	}
	alone := newSet(t, &sandboxtest.Fake{}, 1)
	c = alone.New("p")
	for range 2 {
		if _, _, err := run(t, c, job("x", time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := run(t, alone.New("p"), job("y", time.Minute)); err != nil {
		t.Errorf("where the only sandbox is a brisk conversation's, another one: %v", err)
	}
}
