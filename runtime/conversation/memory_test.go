package conversation

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
	"cloche.dev/cloche/runtime/shim"
)

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-end:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// having counts the principal's conversations that have a sandbox.
func (s *Set) having(principal string) (n int) {
	for _, c := range s.Recent(principal, 100) {
		if c.Sandbox {
			n++
		}
	}
	return n
}

// TestOthersTakeTheMemory of the host: sandboxes that no call uses end, those of
// the pool too, a call that runs goes on, and no second one begins beside it. When
// the memory is there again all is as before.
func TestOthersTakeTheMemory(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Namespaces(t)
		need.Python(t)
		r := shim.New(shim.Options{
			Path: need.Shim(t), Instance: "test-" + strings.ToLower(rand.Text()),
			Log: slog.New(slog.DiscardHandler), Stderr: t.Output(),
		})
		const total, plenty, little = 64 << 30, 32 << 30, 1 << 30
		var available atomic.Int64
		available.Store(plenty)
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		g := admission.New(t.Context(), admission.Options{
			Headroom: func() admission.Headroom { return admission.Headroom{Total: total, Available: available.Load()} },
			Patience: time.Second,
		})
		p := pool.New(t.Context(), pool.Options{Runner: r, Log: log, Gate: g})
		s := NewSet(t.Context(), Options{Pool: p, Gate: g, Log: log})
		defer func() {
			ctx := context.WithoutCancel(t.Context())
			s.Close(ctx)
			p.Close(ctx)
			g.Close()
			if err := r.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}()
		warm := func(n int) func() bool {
			return func() bool {
				got, _ := p.Warm()
				return got == n
			}
		}
		p.Keep(t.Context(), job("", 0).Kind, 1)
		for range 3 {
			if out, _, err := run(t, s.New("idle"), job("print(1)", time.Minute)); out != "1\n" || err != nil {
				t.Fatalf("Run = %q, %v", out, err)
			}
		}
		eventually(t, "the pool is full", warm(1))
		var out bytes.Buffer
		long, over := s.New("runs"), make(chan error, 1)
		begun, goOn := io.Pipe()
		defer goOn.Close()
		go func() {
			turn, err := long.Enter(t.Context(), long.Begin(), 0)
			if err == nil {
				j := job("import time\nprint('begun', flush=True)\ntime.sleep(5)\nprint('over')", time.Minute)
				j.Stdout = io.MultiWriter(&out, goOn)
				_, err = long.Run(t.Context(), turn, j)
			}
			over <- err
		}()
		if _, err := begun.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, begun) }()
		available.Store(little)
		eventually(t, "sandboxes that no call uses have ended", func() bool { return s.having("idle") == 0 && warm(0)() })
		if n := s.having("runs"); n != 1 {
			t.Errorf("%d conversations have a sandbox in which a call runs, want 1", n)
		}
		if _, _, err := run(t, s.New("more"), job("print(2)", time.Minute)); fault.KindOf(err) != fault.Busy || !strings.Contains(fmt.Sprint(err), "others have taken this server's memory") {
			t.Errorf("a second call: %v, want busy", err)
		}
		if err := <-over; err != nil || out.String() != "begun\nover\n" {
			t.Errorf("the call that ran: %q, %v", out.String(), err)
		}
		if out, _, err := run(t, s.New("more"), job("print(2)", time.Minute)); out != "2\n" || err != nil {
			t.Errorf("a call when none runs: %q, %v", out, err)
		}
		available.Store(plenty)
		eventually(t, "the pool is full again", warm(1))
		if out, _, err := run(t, s.New("idle"), job("print(3)", time.Minute)); out != "3\n" || err != nil || s.having("idle") != 1 {
			t.Errorf("afterwards: %q, %v, %d conversations have a sandbox", out, err, s.having("idle"))
		}
	})
}

// TestMemoryIsNotOvercommitted: calls that may take more together than there is
// do not run together, those that may take it all run alone, and one that may take
// more is refused.
func TestMemoryIsNotOvercommitted(t *testing.T) {
	var now atomic.Int64
	var mu sync.Mutex
	most := int64(0) // mu
	fake := &sandboxtest.Fake{Call: func(b *sandboxtest.FakeBox, _ string, _, _ io.Writer, _ <-chan struct{}) int {
		sum := now.Add(b.Spec.Limits.MemoryBytes)
		defer now.Add(-b.Spec.Limits.MemoryBytes)
		mu.Lock()
		most = max(most, sum)
		mu.Unlock()
		<-time.After(time.Millisecond)
		return 0
	}}
	const all = 1000 << 20
	s := newSetWith(t, fake, admission.Options{Capacity: func() admission.Capacity { return admission.Capacity{Memory: all} }})
	sized := func(memory int64) Job {
		j := job("x", time.Minute)
		j.Kind.Spec.Limits.MemoryBytes = memory
		j.Kind.Digest = fmt.Sprint(memory)
		return j
	}
	results := make(chan error)
	sizes := []int64{100 << 20, 300 << 20, 500 << 20, all}
	for n := range 40 {
		c := s.New(fmt.Sprint(n % 3))
		go func() {
			_, _, err := run(t, c, sized(sizes[n%len(sizes)]))
			results <- err
		}()
	}
	for range 40 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if most > all || most < all/2 {
		t.Errorf("at most %d MB were asked for at a time, want %d or a bit less", most>>20, int64(all>>20))
	}
	if _, _, err := run(t, s.New("p"), sized(all+1)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a call that may take more than there is: %v", err)
	}
}

// TestRefusedCallKeepsItsSandbox: one for which there is no room goes on to have
// the sandbox that its conversation has, for as long as it rests.
func TestRefusedCallKeepsItsSandbox(t *testing.T) {
	release := make(chan struct{})
	fake := &sandboxtest.Fake{Call: func(_ *sandboxtest.FakeBox, code string, _, _ io.Writer, _ <-chan struct{}) int {
		if code == "hold" {
			<-release
		}
		return 0
	}}
	s := newSetWith(t, fake, admission.Options{
		Capacity: func() admission.Capacity { return admission.Capacity{CPUs: 1} }, Patience: 50 * time.Millisecond,
	})
	c, other := s.New("p"), s.New("p")
	if _, _, err := run(t, c, job("a", time.Minute)); err != nil {
		t.Fatal(err)
	}
	waitFree(t, c)
	held := make(chan error, 1)
	go func() {
		_, _, err := run(t, other, job("hold", time.Minute))
		held <- err
	}()
	eventually(t, "another call runs", func() bool { return len(fake.Boxes()) == 2 && s.having("p") == 2 })
	short := job("c", 100*time.Millisecond)
	if _, _, err := run(t, c, short); fault.KindOf(err) != fault.Busy {
		t.Errorf("a call beside it: %v, want busy", err)
	}
	if n := s.having("p"); n != 2 {
		t.Errorf("%d conversations have a sandbox, want both", n)
	}
	eventually(t, "its time to rest is over", func() bool { return s.having("p") == 1 })
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	if _, _, err := run(t, c, job("d", time.Minute)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
