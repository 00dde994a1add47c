package shim

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
)

// A sleeper is a Runner of sandboxes that count how often they were woken.
type sleeper struct {
	slow
	woken chan struct{}
}

func (s *sleeper) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	c, err := s.slow.Start(ctx, spec, control)
	if err != nil {
		return nil, err
	}
	return &sleeperBox{c, s.woken}, nil
}

type sleeperBox struct {
	sandbox.Container
	woken chan struct{}
}

func (b *sleeperBox) Wake(context.Context) error {
	b.woken <- struct{}{}
	return nil
}

// TestWake: it reaches the sandbox that is meant, and nobody waits for a reply.
func TestWake(t *testing.T) {
	r := &sleeper{woken: make(chan struct{}, 10)}
	p := servingRunner(t, r)
	if a := p.ask(request{ID: 1, Op: opStart, Sandbox: 7}); a.Error != nil {
		t.Fatalf("start = %+v", a)
	}
	p.post(request{ID: 2, Op: opWake, Sandbox: 8})
	p.post(request{ID: 3, Op: opWake, Sandbox: 7})
	select {
	case <-r.woken:
	case <-time.After(soon):
		t.Fatalf("it was not woken within %v", soon)
	}
	if a := p.ask(request{ID: 4, Op: opUsage, Sandbox: 7}); a.ID != 4 || a.Error != nil {
		t.Errorf("the next reply = %+v, want that of request 4", a)
	}
	if n := len(r.woken); n != 0 {
		t.Errorf("it was woken %d times more", n)
	}
}

// TestWhomToWake: where control groups limit memory there is nobody.
func TestWhomToWake(t *testing.T) {
	for _, limited := range []bool{true, false} {
		ours, theirs := pair(t)
		c := &container{link: &link{conn: ours, setup: Setup{Limits: cgroup.Limits{Memory: limited}}}, id: 5}
		if err := c.Wake(t.Context()); err != nil {
			t.Fatalf("Wake = %v", err)
		}
		_ = ours.unix.CloseWrite()
		if got, want := read(t, theirs), !limited; (len(got) > 0) != want {
			t.Errorf("memory limited by control groups: %v; told %q, want a message: %v", limited, got, want)
		}
	}
}

// read returns the next message, empty if there is none.
func read(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, maxPacket)
	n, _ := c.Read(buf)
	return string(buf[:n])
}
