package pool

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

func kind(name string) Kind {
	spec := sandboxtest.Spec()
	spec.Image = name
	return Kind{Digest: name, Spec: spec}
}

// newPool returns a pool of runner's sandboxes, which is closed with the test;
// then none of fake's may be left.
func newPool(t *testing.T, fake *sandboxtest.Fake, runner sandbox.Runner) *Pool {
	t.Helper()
	p := New(t.Context(), Options{Runner: runner, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		p.Close(context.Background())
		if n := len(fake.Live()); n > 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	return p
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-end:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// warms waits until n sandboxes are warm and no more are being started.
func warms(t *testing.T, p *Pool, n int) {
	t.Helper()
	eventually(t, "the pool is full", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.members()) == n && !p.filling
	})
}

// members lists what is warm.
// Preconditions: p.mu is held.
func (p *Pool) members() (all []*member) {
	for _, s := range p.shelves {
		all = append(all, s.warm...)
	}
	return all
}

// take takes a sandbox, which is destroyed with the test.
func take(t *testing.T, p *Pool, k Kind) *pydriver.Process {
	t.Helper()
	s, err := p.Take(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if s.Spec().Image != k.Spec.Image {
		t.Errorf("Take(%s) = a sandbox of image %s", k.Digest, s.Spec().Image)
	}
	t.Cleanup(func() {
		if err := s.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestFillAndHandOut(t *testing.T) {
	fake := new(sandboxtest.Fake)
	p := newPool(t, fake, fake)
	if n, s := p.Warm(); n != 0 || s != nil {
		t.Errorf("Warm() of a new pool = %d, %v", n, s)
	}
	a := kind("a")
	p.Keep(t.Context(), a, 2)
	warms(t, p, 2)
	n, first := p.Warm()
	if got := take(t, p, a); n != 2 || got != first {
		t.Errorf("Take() = %p, want the warm %p of %d", got, first, n)
	}
	warms(t, p, 2)
	if n := len(fake.Boxes()); n != 3 {
		t.Errorf("%d sandboxes were started, want 2 and the one for that which was taken", n)
	}
	// Nothing that was handed out comes back.
	seen := map[*pydriver.Process]bool{first: true}
	for range 10 {
		s := take(t, p, a)
		if seen[s] {
			t.Fatalf("%p was handed out twice", s)
		}
		seen[s] = true
	}
}

func TestMoreAndLess(t *testing.T) {
	fake := new(sandboxtest.Fake)
	p := newPool(t, fake, fake)
	a := kind("a")
	for _, want := range []int{1, 3, 2, 0, 1, -1} {
		p.Keep(t.Context(), a, want)
		warms(t, p, max(want, 0))
		eventually(t, "the others are gone", func() bool { return len(fake.Live()) == max(want, 0) })
	}
	if n := len(fake.Boxes()); n != 4 {
		t.Errorf("%d sandboxes were started, want 1, 2 more, and 1 more", n)
	}
	// A pool that keeps none still hands out.
	take(t, p, a)
	warms(t, p, 0)
}

func TestDeadMember(t *testing.T) {
	fake := new(sandboxtest.Fake)
	p := newPool(t, fake, fake)
	a := kind("a")
	p.Keep(t.Context(), a, 3)
	warms(t, p, 3)
	p.mu.Lock()
	warm := p.members()
	p.mu.Unlock()
	for i, b := range fake.Boxes()[:2] {
		b.Die()
		<-warm[i].process.Gone()
	}
	if got := take(t, p, a); got != warm[2].process {
		t.Errorf("Take() = %p, want the one that lives, %p", got, warm[2].process)
	}
	s := take(t, p, a)
	select {
	case <-s.Gone():
		t.Error("Take() = a dead sandbox")
	default:
	}
	if err := p.Trouble(); err == nil || !strings.Contains(err.Error(), "a sandbox ended by itself 0.") {
		t.Errorf("Trouble() = %v, want that sandboxes die", err)
	}
}

// slowly is a Runner whose containers take their time to be destroyed.
type slowly struct {
	*sandboxtest.Fake
	destroyed atomic.Int32
	hold      chan struct{}
}

type slowContainer struct {
	sandbox.Container
	r *slowly
}

func (r *slowly) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	c, err := r.Fake.Start(ctx, spec, control)
	return &slowContainer{c, r}, err
}

func (c *slowContainer) Destroy(ctx context.Context) error {
	<-c.r.hold
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.r.destroyed.Add(1)
	return c.Container.Destroy(ctx)
}

func TestCloseWaits(t *testing.T) {
	r := &slowly{Fake: new(sandboxtest.Fake), hold: make(chan struct{})}
	p := newPool(t, r.Fake, r)
	p.Keep(t.Context(), kind("a"), 1)
	warms(t, p, 1)
	p.Keep(t.Context(), kind("a"), 0) // does not wait for the end of the old one
	p.Keep(t.Context(), kind("b"), 1)
	warms(t, p, 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var closing sync.WaitGroup
	closing.Go(func() {
		p.Close(ended)
		if n := r.destroyed.Load(); n != 2 {
			t.Errorf("Close returned when %d of 2 sandboxes were destroyed", n)
		}
	})
	close(r.hold)
	closing.Wait()
	p.Keep(t.Context(), kind("c"), 5)
	if n, _ := p.Warm(); n != 0 || len(r.Boxes()) != 2 {
		t.Errorf("a closed pool has %d warm sandboxes, %d were started", n, len(r.Boxes()))
	}
}

// TestCloseWhileStarting closes a pool whose filler waits for a start.
func TestCloseWhileStarting(t *testing.T) {
	starting := make(chan struct{})
	fake := &sandboxtest.Fake{StartErr: func(ctx context.Context, _ sandbox.Spec) error {
		close(starting)
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	p := newPool(t, fake, fake)
	p.Keep(t.Context(), kind("a"), 1)
	<-starting
	p.Close(t.Context())
}

// A broken runner starts nothing, until it is mended.
type broken struct {
	mu    sync.Mutex
	tries []time.Time // mu
}

var errBroken = errors.New("no namespaces")

func (r *broken) Start(context.Context, sandbox.Spec, *os.File) (sandbox.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, time.Now())
	return nil, errBroken
}

func (r *broken) Close() error { return nil }

func TestStartFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := new(broken)
		p := New(t.Context(), Options{Runner: r, Log: slog.New(slog.NewTextHandler(&log, nil))})
		p.Keep(t.Context(), kind("a"), 2)
		<-time.After(4 * time.Minute)
		synctest.Wait()
		p.Keep(t.Context(), kind("a"), 0) // ends the tries
		<-time.After(time.Hour)
		synctest.Wait()
		var waits []string
		for i := 1; i < len(r.tries); i++ {
			waits = append(waits, r.tries[i].Sub(r.tries[i-1]).String())
		}
		if got := strings.Join(waits, " "); got != "5s 10s 20s 40s 1m0s 1m0s" {
			t.Errorf("waited %s between the tries", got)
		}
		if n := strings.Count(log.String(), "no namespaces"); n != len(r.tries) {
			t.Errorf("%d tries, %d lines in the log:\n%s", len(r.tries), n, log.String())
		}
		if _, err := p.Take(t.Context(), kind("a")); !errors.Is(err, errBroken) {
			t.Errorf("Take() = %v, want %v", err, errBroken)
		}
		p.Close(t.Context())
	})
}

// TestEndOfContext ends the context that the pool lives in: it tries no more.
func TestEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := new(broken)
		p := New(ctx, Options{Runner: r, Log: slog.New(slog.DiscardHandler)})
		p.Keep(t.Context(), kind("a"), 1)
		synctest.Wait()
		cancel()
		synctest.Wait()
		p.Keep(t.Context(), kind("b"), 1)
		<-time.After(time.Hour)
		if n := len(r.tries); n != 1 {
			t.Errorf("%d tries, want only that before the end", n)
		}
		p.Close(t.Context())
	})
}

func TestManyAtOnce(t *testing.T) {
	fake := new(sandboxtest.Fake)
	p := newPool(t, fake, fake)
	var work sync.WaitGroup
	var mu sync.Mutex
	seen := map[*pydriver.Process]bool{}
	for i := range 8 {
		work.Go(func() {
			for j := range 10 {
				k := kind(string(rune('a' + (i+j)%2)))
				p.Keep(t.Context(), k, j%3)
				s, err := p.Take(t.Context(), k)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[s] || s.Spec().Image != k.Spec.Image {
					t.Errorf("Take(%s) = %p of %s, handed out before: %v", k.Digest, s, s.Spec().Image, seen[s])
				}
				seen[s] = true
				mu.Unlock()
				if err := s.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
}
