package pool

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// fleeting is a Runner whose sandboxes die as soon as they are there.
type fleeting struct {
	*sandboxtest.Fake
	die bool
}

func (r *fleeting) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	c, err := r.Fake.Start(ctx, spec, control)
	if r.die && err == nil {
		boxes := r.Boxes()
		go boxes[len(boxes)-1].Die()
	}
	return c, err
}

// TestBrokenImage: sandboxes that die as fast as they are made are not made as
// fast as they die, and the pool says what is the matter until one lives.
func TestBrokenImage(t *testing.T) {
	r := &fleeting{Fake: new(sandboxtest.Fake), die: true}
	p := newPool(t, r.Fake, r)
	if err := p.Trouble(); err != nil {
		t.Errorf("Trouble() of a new pool = %v", err)
	}
	a := kind("a")
	for n, wait := range []time.Duration{10, 20, 40, 60, 60} {
		p.Keep(t.Context(), a, 1)
		eventually(t, "the next one dies", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(r.Boxes()) == n+1 && p.shelves[0].wait == wait*time.Second
		})
		for range 100 {
			p.Keep(t.Context(), a, 1) // as many calls do
		}
		if err := p.Trouble(); err == nil || !strings.Contains(err.Error(), "ended") {
			t.Errorf("Trouble() = %v, want that sandboxes die", err)
		}
		p.mu.Lock()
		if left := time.Until(p.shelves[0].retry); left < wait*time.Second/4 || left > wait*time.Second {
			t.Errorf("the next one is started in %v, then after %v", left, wait)
		}
		if len(r.Boxes()) != n+1 {
			t.Errorf("%d sandboxes were started, want %d", len(r.Boxes()), n+1)
		}
		r.die = n < 4
		p.shelves[0].retry = time.Now()
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.steady = time.Millisecond
	p.mu.Unlock()
	p.Keep(t.Context(), a, 1)
	warms(t, p, 1)
	eventually(t, "one has lived for a while", func() bool { return p.Trouble() == nil })
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shelves[0]; s.wait != firstRetry || !s.retry.IsZero() {
		t.Errorf("then the next failure waits %v, from %v on", s.wait, s.retry)
	}
}

// TestOtherKindsInTrouble: a kind that is broken keeps none from another.
func TestOtherKindsInTrouble(t *testing.T) {
	fake := &sandboxtest.Fake{StartErr: func(_ context.Context, spec sandbox.Spec) error {
		if spec.Image == "a" {
			return errBroken
		}
		return nil
	}}
	p := newPool(t, fake, fake)
	p.Keep(t.Context(), kind("a"), 1)
	eventually(t, "the first fails", func() bool { return p.Trouble() != nil })
	p.Keep(t.Context(), kind("b"), 1)
	eventually(t, "the second is warm", func() bool {
		n, _ := p.Warm()
		return n == 1
	})
	if err := p.Trouble(); err != nil {
		t.Errorf("Trouble() of the kind that was asked for last = %v", err)
	}
}

// TestCallersFirst: while a caller starts a sandbox of its own, none is started
// that nobody asked for.
func TestCallersFirst(t *testing.T) {
	starting, goOn := make(chan struct{}, 10), make(chan struct{})
	fake := &sandboxtest.Fake{StartErr: func(context.Context, sandbox.Spec) error {
		starting <- struct{}{}
		<-goOn
		return nil
	}}
	p := newPool(t, fake, fake)
	taken := make(chan error, 1)
	go func() {
		s, err := p.Take(t.Context(), kind("a"))
		if err == nil {
			err = s.Destroy(context.Background())
		}
		taken <- err
	}()
	<-starting
	p.Keep(t.Context(), kind("a"), 3)
	eventually(t, "the filler stands back", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.filling && len(p.wake) == 0
	})
	if len(starting) > 0 || len(fake.Boxes()) > 0 {
		t.Error("one more is being started")
	}
	close(goOn)
	if err := <-taken; err != nil {
		t.Error(err)
	}
	warms(t, p, 3)
}

// TestMemoryBoundsThePool: there are as many warm sandboxes as there is room for,
// fewer when calls need it, and as many as before then.
func TestMemoryBoundsThePool(t *testing.T) {
	fake := new(sandboxtest.Fake)
	const call = 100 << 20
	capacity := admission.Capacity{Memory: 2*call + 3*admission.Idle}
	gate := admission.New(t.Context(), admission.Options{Capacity: func() admission.Capacity { return capacity }})
	t.Cleanup(gate.Close)
	p := New(t.Context(), Options{Runner: fake, Log: slog.New(slog.DiscardHandler), Gate: gate})
	t.Cleanup(func() {
		p.Close(context.Background())
		if n := len(fake.Live()); n > 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	gate.EvictBy(func(ctx context.Context, _ admission.Need) bool { return p.Evict(ctx) })
	var seats []*admission.Seat
	enter := func(name string, memory int64) {
		t.Helper()
		s, err := gate.Enter(t.Context(), admission.Request{Principal: "p", Conversation: name, Memory: memory}, nil)
		if err != nil {
			t.Fatal(err)
		}
		seats = append(seats, s)
	}
	has := func(what string, n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s: %d are warm", what, n), func() bool {
			got, _ := p.Warm()
			return got == n && len(fake.Live()) == n
		})
	}
	enter("a", call)
	enter("b", call-admission.Idle)
	p.Keep(t.Context(), kind("a"), 8)
	has("beside two calls", 4)
	enter("c", 2*admission.Idle)
	has("beside three calls", 2)
	for _, s := range seats {
		s.Leave()
	}
	has("when none runs", 8)
	// What is handed out is not counted as warm any more.
	for range 3 {
		take(t, p, kind("a"))
	}
	warms(t, p, 8)
}

// TestEvict ends what will be missed least, and what is missing is made again.
func TestEvict(t *testing.T) {
	fake := new(sandboxtest.Fake)
	p := newPool(t, fake, fake)
	if p.Evict(t.Context()) {
		t.Error("of an empty pool a sandbox was evicted")
	}
	for i, k := range []string{"a", "b", "c", "b"} {
		p.Keep(t.Context(), kind(k), 1)
		warms(t, p, min(i+1, 3))
	}
	for n, k := range []string{"a", "c"} {
		p.Keep(t.Context(), kind(k), 0) // which then is not made again
		p.Keep(t.Context(), kind("b"), 1)
		warms(t, p, 2-n)
	}
	p.Keep(t.Context(), kind("a"), 2)
	warms(t, p, 3)
	p.Keep(t.Context(), kind("b"), 1)
	boxes := fake.Boxes()
	if !p.Evict(t.Context()) {
		t.Error("nothing was evicted")
	}
	select {
	case <-boxes[3].Destroyed:
	default:
		t.Errorf("the older one of a kind that was asked for longer ago is still there")
	}
	warms(t, p, 3)
	if n := len(fake.Boxes()); n != 6 {
		t.Errorf("%d sandboxes were made, want 6: 3 kinds, 2 more, and one in the place of the evicted", n)
	}
}
