package shim

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox"
)

// A slow is a Runner whose sandboxes start when it is told so, or hang.
type slow struct {
	start func(ctx context.Context) error // nil starts at once
	usage func(ctx context.Context) error

	mu       sync.Mutex
	live     int  // mu
	closed   bool // mu
	started  int  // mu
	refused  int  // mu
	lastSpec sandbox.Spec
}

func (s *slow) Start(ctx context.Context, spec sandbox.Spec, _ *os.File) (sandbox.Container, error) {
	if s.start != nil {
		if err := s.start(ctx); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused++
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live++
	s.started++
	s.lastSpec = spec
	return &slowBox{s: s}, nil
}

func (s *slow) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

type slowBox struct {
	s    *slow
	once sync.Once
}

func (b *slowBox) Refresh(context.Context) error { return nil }

func (b *slowBox) Usage(ctx context.Context) (sandbox.Usage, error) {
	if b.s.usage != nil {
		return sandbox.Usage{}, b.s.usage(ctx)
	}
	return sandbox.Usage{OOMKills: 3}, nil
}

func (b *slowBox) Destroy(context.Context) error {
	b.once.Do(func() {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		b.s.live--
	})
	return nil
}

// A peer is the server's end of a Serve that runs in this process.
type peer struct {
	*conn
	tb   testing.TB
	done chan error // what Serve returned
}

// serving starts Serve with a Runner that newRunner makes.
func serving(t *testing.T, newRunner func() (sandbox.Runner, error)) *peer {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(os.NewFile(uintptr(fds[0]), "server"))
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{conn: c, tb: t, done: make(chan error, 1)}
	go func() {
		p.done <- Serve(t.Context(), os.NewFile(uintptr(fds[1]), "shim"), slog.New(slog.DiscardHandler), newRunner)
	}()
	t.Cleanup(func() { p.unix.Close() })
	return p
}

// servingRunner starts Serve with r and reads its hello.
func servingRunner(t *testing.T, r sandbox.Runner) *peer {
	t.Helper()
	p := serving(t, func() (sandbox.Runner, error) { return r, nil })
	if got := p.next(); got.Hello == nil || got.Hello.Version != version {
		t.Fatalf("hello = %+v", got)
	}
	return p
}

func (p *peer) next() reply {
	p.tb.Helper()
	var a reply
	if _, err := p.receive(&a); err != nil {
		p.tb.Fatalf("receive = %v", err)
	}
	return a
}

// ask sends a request and returns the reply; with a start goes a descriptor.
func (p *peer) ask(r request) reply {
	p.tb.Helper()
	p.post(r)
	return p.next()
}

func (p *peer) post(r request) {
	p.tb.Helper()
	var files []*os.File
	if r.Op == opStart {
		files = append(files, os.Stderr)
	}
	if err := p.send(r, files...); err != nil {
		p.tb.Fatalf("send = %v", err)
	}
}

// ended waits for Serve's return.
func (p *peer) ended(within time.Duration) error {
	p.tb.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(within):
		p.tb.Fatalf("Serve did not return within %v", within)
		return nil
	}
}

const soon = 5 * time.Second

func TestServe(t *testing.T) {
	r := &slow{}
	p := servingRunner(t, r)
	for _, tt := range []struct {
		name string
		request
		kind fault.Kind
	}{
		{"usage of one that is not there", request{Op: opUsage, Sandbox: 1}, fault.Gone},
		{"refresh of one that is not there", request{Op: opRefresh, Sandbox: 1}, fault.Gone},
		{"destroy of one that is not there", request{Op: opDestroy, Sandbox: 1}, ""},
		{"no operation", request{Sandbox: 1}, fault.Invalid},
		{"unknown operation", request{Op: "exec", Sandbox: 1}, fault.Invalid},
		{"start", request{Op: opStart, Sandbox: 1, Spec: sandbox.Spec{Image: "host"}}, ""},
		{"start of the same", request{Op: opStart, Sandbox: 1}, fault.Busy},
		{"usage", request{Op: opUsage, Sandbox: 1}, ""},
		{"refresh", request{Op: opRefresh, Sandbox: 1}, ""},
		{"destroy", request{Op: opDestroy, Sandbox: 1}, ""},
		{"destroy again", request{Op: opDestroy, Sandbox: 1}, ""},
		{"usage afterwards", request{Op: opUsage, Sandbox: 1}, fault.Gone},
		{"start anew", request{Op: opStart, Sandbox: 1}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.ID = 5
			got := p.ask(tt.request)
			if fault.KindOf(got.Error.err()) != tt.kind || got.ID != 5 {
				t.Errorf("reply = %+v, %v, want kind %q", got, got.Error.err(), tt.kind)
			}
			if tt.name == "usage" && got.Usage.OOMKills != 3 {
				t.Errorf("usage = %+v", got.Usage)
			}
		})
	}
	if err := p.send(request{ID: 6, Op: opStart, Sandbox: 9}); err != nil {
		t.Fatal(err)
	}
	if got := p.next(); got.Error == nil {
		t.Error("start without a descriptor: no error")
	}
	if got := p.ask(request{ID: 7, Op: opStart, Sandbox: 9}); got.Error != nil {
		t.Errorf("start after one that failed: %v", got.Error.err())
	}
	p.unix.Close()
	if err := p.ended(soon); err != nil || !r.closed {
		t.Errorf("Serve = %v, closed %v, want nil and the Runner closed", err, r.closed)
	}
}

func TestServeBoundsSandboxes(t *testing.T) {
	p := servingRunner(t, &slow{})
	for id := uint64(1); id <= maxSandboxes; id++ {
		if got := p.ask(request{ID: id, Op: opStart, Sandbox: id}); got.Error != nil {
			t.Fatalf("start of sandbox %d: %v", id, got.Error.err())
		}
	}
	if got := p.ask(request{Op: opStart, Sandbox: maxSandboxes + 1}); fault.KindOf(got.Error.err()) != fault.Busy {
		t.Errorf("start of one more: %v, want %s", got.Error.err(), fault.Busy)
	}
	p.ask(request{Op: opDestroy, Sandbox: 1})
	if got := p.ask(request{Op: opStart, Sandbox: maxSandboxes + 1}); got.Error != nil {
		t.Errorf("start when one has ended: %v", got.Error.err())
	}
}

// TestServeDestroyCrossesStart: however they meet, nothing is left.
func TestServeDestroyCrossesStart(t *testing.T) {
	r := &slow{start: func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Microsecond):
			return nil
		}
	}}
	p := servingRunner(t, r)
	const rounds = 300
	for id := uint64(1); id <= rounds; id++ {
		p.post(request{ID: 2 * id, Op: opStart, Sandbox: id})
		if id%3 == 0 {
			<-time.After(time.Duration(id) * time.Microsecond)
		}
		p.post(request{ID: 2*id + 1, Op: opDestroy, Sandbox: id})
		for range 2 {
			if got := p.next(); got.ID == 2*id+1 && got.Error != nil {
				t.Fatalf("destroy: %v", got.Error.err())
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live != 0 || r.started+r.refused != rounds || r.started == 0 || r.refused == 0 {
		t.Errorf("of %d starts were %d started and %d refused, and %d are left, want some of each and none left", rounds, r.started, r.refused, r.live)
	}
}

func TestServeEnds(t *testing.T) {
	released := make(chan struct{})
	defer close(released)
	hang := func(context.Context) error {
		<-released
		return errors.New("the test is over")
	}
	untilEnd := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for _, tt := range []struct {
		name   string
		r      *slow
		within time.Duration
		fails  bool
	}{
		{"a request in flight that obeys", &slow{start: untilEnd}, soon, false},
		{"a request in flight that hangs", &slow{start: hang}, closeTimeout + soon, true},
		{"a usage that obeys", &slow{usage: untilEnd}, soon, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := servingRunner(t, tt.r)
			p.post(request{ID: 1, Op: opStart, Sandbox: 1})
			if tt.r.start == nil {
				p.next()
				p.post(request{ID: 2, Op: opUsage, Sandbox: 1})
			}
			p.unix.Close()
			if err := p.ended(tt.within); (err != nil) != tt.fails {
				t.Errorf("Serve = %v, want an error: %v", err, tt.fails)
			}
		})
	}
}

// TestServeSeesTheEndAtOnce: also while the Runner is being made.
func TestServeSeesTheEndAtOnce(t *testing.T) {
	made, released := make(chan struct{}), make(chan struct{})
	defer close(released)
	p := serving(t, func() (sandbox.Runner, error) {
		close(made)
		<-released
		return nil, errors.New("the test is over")
	})
	<-made
	p.unix.Close()
	_ = p.ended(soon)
}

func TestServeWithoutRunner(t *testing.T) {
	p := serving(t, func() (sandbox.Runner, error) { return nil, fault.New(fault.Unavailable, "no namespaces") })
	if got := p.next(); fault.KindOf(got.Error.err()) != fault.Unavailable {
		t.Errorf("hello = %v, want a fault", got.Error.err())
	}
	if err := p.ended(soon); err == nil {
		t.Error("Serve = nil, want an error")
	}
}

// TestServeRefusesGarbage: a server that sends what is no request is not ours.
func TestServeRefusesGarbage(t *testing.T) {
	for _, text := range []string{"x", "[]", `{"id":-1}`, `{"id":1,"op":7}`} {
		r := &slow{}
		p := servingRunner(t, r)
		p.ask(request{Op: opStart, Sandbox: 1})
		if _, err := p.unix.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := p.ended(soon); err == nil || !r.closed {
			t.Errorf("Serve after %q = %v, closed %v, want an error and the Runner closed", text, err, r.closed)
		}
	}
}

// TestReplies: the server's end takes what a shim says for what it is.
func TestReplies(t *testing.T) {
	ours, theirs := pair(t)
	l := &link{conn: ours, gone: make(chan struct{}), waiting: map[uint64]chan reply{}}
	go l.read()
	answer := func(write func(id uint64) []any) {
		var r request
		c := &conn{unix: theirs}
		if _, err := c.receive(&r); err != nil {
			return
		}
		for _, a := range write(r.ID) {
			data, _ := json.Marshal(a)
			_, _ = theirs.Write(data)
		}
	}
	go answer(func(id uint64) []any {
		return []any{reply{ID: id + 1}, reply{ID: 0}, reply{ID: id, Usage: sandbox.Usage{OOMKills: 1}}, reply{ID: id}, reply{ID: id}}
	})
	if u, err := l.call(t.Context(), request{Op: opUsage}); err != nil || u.OOMKills != 1 {
		t.Errorf("call with strange replies around = %+v, %v", u, err)
	}
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	go answer(func(uint64) []any {
		cancel(cause)
		return nil
	})
	if _, err := l.call(ctx, request{Op: opUsage}); !errors.Is(err, cause) {
		t.Errorf("call whose context ends = %v, want %v", err, cause)
	}
	go answer(func(uint64) []any { return []any{"no reply"} })
	if _, err := l.call(t.Context(), request{Op: opUsage}); fault.KindOf(err) != fault.Gone {
		t.Errorf("call of a shim that says garbage = %v, want kind %s", err, fault.Gone)
	}
	ours.unix.Close()
	if _, err := l.call(t.Context(), request{Op: opUsage}); fault.KindOf(err) != fault.Gone {
		t.Errorf("call of a shim that is gone = %v, want kind %s", err, fault.Gone)
	}
}
