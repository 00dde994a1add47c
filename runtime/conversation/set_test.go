package conversation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newSet returns a set whose sandboxes are fake's, of which at most so many may
// be had. With the test it is closed; then none may be left.
func newSet(t *testing.T, fake *sandboxtest.Fake, most int) *Set {
	t.Helper()
	return newSetWith(t, fake, admission.Options{Capacity: func() admission.Capacity { return admission.Capacity{Sandboxes: most} }})
}

// newSetWith is newSet with a gate of these options.
func newSetWith(t *testing.T, fake *sandboxtest.Fake, o admission.Options) *Set {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	g := admission.New(t.Context(), o)
	p := pool.New(t.Context(), pool.Options{Runner: fake, Log: log, Gate: g})
	s := NewSet(t.Context(), Options{Pool: p, Gate: g, Log: log})
	t.Cleanup(func() {
		s.Close(context.Background())
		p.Close(context.Background())
		g.Close()
		if n := len(fake.Live()); n > 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	return s
}

func job(code string, idle time.Duration) Job {
	return Job{
		Kind: pool.Kind{Digest: "k", Spec: sandboxtest.Spec()}, Code: code, Timeout: time.Minute, Idle: idle,
		Stderr: io.Discard,
	}
}

// run runs a job as a call does and returns what it wrote.
func run(t *testing.T, c *Conversation, j Job) (string, sandbox.Exit, error) {
	t.Helper()
	var out bytes.Buffer
	j.Stdout = &out
	turn, err := c.Enter(t.Context(), c.Begin(), 100)
	if err != nil {
		return "", sandbox.Exit{}, err
	}
	exit, err := c.Run(t.Context(), turn, j)
	return out.String(), exit, err
}

func TestIDs(t *testing.T) {
	s := newSet(t, &sandboxtest.Fake{}, 4)
	a := s.New("alice")
	if len(a.ID) != len("c-")+26 || !strings.HasPrefix(a.ID, "c-") {
		t.Errorf("ID = %q, want c- and 26 letters", a.ID)
	}
	if got, err := s.ByID("alice", a.ID); got != a || err != nil {
		t.Errorf("ByID(own) = %v, %v", got, err)
	}
	_, foreign := s.ByID("bob", a.ID)
	_, unknown := s.ByID("bob", "c-nothing")
	if fault.KindOf(foreign) != fault.NotFound || foreign.Error() != unknown.Error() {
		t.Errorf("ByID of another's = %v, of nobody's = %v, want the same not_found", foreign, unknown)
	}
	hinted := s.ByHint("alice", "h")
	if again := s.ByHint("alice", "h"); again != hinted {
		t.Error("the same hint led to another conversation")
	}
	for _, other := range []*Conversation{s.ByHint("alice", "h2"), s.ByHint("bob", "h"), a} {
		if other == hinted {
			t.Error("another hint, or another principal, led to the same conversation")
		}
	}
	if n := len(s.Recent("alice", 10)); n != 3 {
		t.Errorf("Recent lists %d conversations of alice, want 3", n)
	}
	if n := len(s.Recent("alice", 2)); n != 2 {
		t.Errorf("Recent(2) lists %d", n)
	}
}

func TestForgetsTheOldest(t *testing.T) {
	s := newSet(t, &sandboxtest.Fake{}, 4)
	first := s.ByHint("p", "first")
	second := s.New("p")
	first.touch()
	for range maxKnown - 2 {
		s.New("p")
	}
	if _, err := s.ByID("p", second.ID); err != nil {
		t.Fatalf("forgotten at the bound: %v", err)
	}
	second.touch()
	first.mu.Lock()
	first.used = time.Time{}
	first.mu.Unlock()
	s.New("p")
	if _, err := s.ByID("p", first.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the oldest past the bound: %v, want not_found", err)
	}
	if _, err := s.ByID("p", second.ID); err != nil {
		t.Errorf("one that was used since: %v", err)
	}
	if s.ByHint("p", "first") == first {
		t.Error("a hint leads to a conversation that was forgotten")
	}
}

// TestSandboxIsKept: a conversation's calls share a sandbox, cleaned in between;
// two conversations never do.
func TestSandboxIsKept(t *testing.T) {
	fake := &sandboxtest.Fake{}
	s := newSet(t, fake, 4)
	a, b := s.New("p"), s.New("p")
	for range 3 {
		for _, c := range []*Conversation{a, b} {
			if out, _, err := run(t, c, job("hello", time.Minute)); out != "hello" || err != nil {
				t.Fatalf("Run = %q, %v", out, err)
			}
		}
	}
	waitFree(t, a, b)
	boxes := fake.Boxes()
	if len(boxes) != 2 {
		t.Fatalf("%d sandboxes for two conversations, want 2", len(boxes))
	}
	for _, box := range boxes {
		if refreshes, calls := box.Counts(); refreshes != 3 || calls != 3 {
			t.Errorf("sandbox %d: %d calls, cleaned %d times, want 3 and 3", box.Number, calls, refreshes)
		}
	}
}

// waitFree waits until nothing runs in the conversations, cleaning included.
func waitFree(t *testing.T, list ...*Conversation) {
	t.Helper()
	for _, c := range list {
		turn, err := c.Enter(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		turn.Leave()
	}
}

func TestSandboxIsReplaced(t *testing.T) {
	broken := errors.New("cannot be cleaned")
	fake := &sandboxtest.Fake{}
	dirty := true
	fake.RefreshErr = func(b *sandboxtest.FakeBox) error {
		if b.Number == 1 && dirty {
			return broken
		}
		return nil
	}
	s := newSet(t, fake, 4)
	c := s.New("p")
	want := func(what string, n int, j Job) {
		t.Helper()
		if out, _, err := run(t, c, j); out != j.Code || err != nil {
			t.Fatalf("%s: Run = %q, %v", what, out, err)
		}
		waitFree(t, c)
		if got := len(fake.Boxes()); got != n {
			t.Errorf("%s: %d sandboxes so far, want %d", what, got, n)
		}
	}
	want("first", 1, job("a", time.Minute))
	want("after one that could not be cleaned", 2, job("b", time.Minute))
	want("the same again", 2, job("c", time.Minute))
	fake.Boxes()[1].Die()
	want("after one that died between calls", 3, job("d", time.Minute))
	other := job("e", time.Minute)
	other.Kind.Digest = "k2"
	want("under another policy", 4, other)
	if n := len(fake.Live()); n != 1 {
		t.Errorf("%d sandboxes live, want 1", n)
	}
}

func TestLostSandboxIsDropped(t *testing.T) {
	fake := &sandboxtest.Fake{}
	fake.Call = func(b *sandboxtest.FakeBox, code string, _, _ io.Writer, _ <-chan struct{}) int {
		if code == "die" {
			go b.Die()
			<-b.Destroyed
		}
		return 0
	}
	s := newSet(t, fake, 4)
	c := s.New("p")
	if _, exit, err := run(t, c, job("die", time.Minute)); err != nil || exit.Lost == "" {
		t.Errorf("Run = %+v, %v, want it lost", exit, err)
	}
	if _, exit, err := run(t, c, job("go on", time.Minute)); err != nil || exit.Lost != "" {
		t.Errorf("the next call: %+v, %v", exit, err)
	}
}

func TestIdleSandboxEnds(t *testing.T) {
	fake := &sandboxtest.Fake{}
	s := newSet(t, fake, 4)
	c := s.New("p")
	if _, _, err := run(t, c, job("x", time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-fake.Boxes()[0].Destroyed:
	case <-time.After(30 * time.Second):
		t.Fatal("the sandbox is still there, long past its time")
	}
	if out, _, err := run(t, c, job("y", time.Minute)); out != "y" || err != nil {
		t.Errorf("the next call: %q, %v", out, err)
	}
}

func TestCallsOfManyConversations(t *testing.T) {
	fake := &sandboxtest.Fake{}
	s := newSet(t, fake, 8)
	var all sync.WaitGroup
	for range 8 {
		c := s.New("p")
		for n := range 25 {
			all.Go(func() {
				code := fmt.Sprintf("%s %d", c.ID, n)
				if out, _, err := run(t, c, job(code, time.Minute)); out != code || err != nil {
					t.Errorf("Run(%q) = %q, %v", code, out, err)
				}
			})
		}
	}
	all.Wait()
	if n := len(fake.Boxes()); n != 8 {
		t.Errorf("%d sandboxes for 8 conversations", n)
	}
}
