package shim

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox"
)

// maxSandboxes bounds what one server may have at a time.
const maxSandboxes = 4096

// closeTimeout bounds what is done once the server is gone.
const closeTimeout = 5 * time.Second

// errServerGone is why requests end.
var errServerGone = errors.New("the server is gone")

// Serve answers the server at the other end of socket until that end is closed,
// by will or by death; then it ends what is left and returns. It takes over
// socket. newRunner is called once, while the end of the server is already being
// watched. What hangs does not keep Serve: once it has returned the process is
// to exit, which ends the rest.
func Serve(ctx context.Context, socket *os.File, log *slog.Logger, newRunner func() (sandbox.Runner, error)) error {
	c, err := newConn(socket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := &service{conn: c, log: log, live: map[uint64]*entry{}}
	requests := make(chan message)
	var reader sync.WaitGroup
	reader.Go(func() { cancel(s.read(ctx, requests)) })
	defer reader.Wait()
	defer cancel(errServerGone)
	defer c.unix.Close()
	if s.runner, err = within(ctx, newRunner); err != nil {
		return errors.Join(err, c.send(reply{Error: toWire(err)}))
	}
	if err := c.send(reply{Hello: &hello{Version: version}}); err == nil {
		s.loop(ctx, requests)
	}
	return s.end(ctx)
}

// within returns what f returns, or the cause of ctx's end if that comes first;
// then f goes on.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

type service struct {
	conn   *conn
	runner sandbox.Runner
	log    *slog.Logger
	calls  sync.WaitGroup

	mu   sync.Mutex
	live map[uint64]*entry // mu
}

// An entry is a sandbox, from the request to start it to that to destroy it.
type entry struct {
	cancel  context.CancelFunc // ends its start
	started chan struct{}      // closed when its start is over
	c       sandbox.Container  // nil until then, and if it failed
}

// A message is a request with its descriptors.
type message struct {
	request
	files []*os.File
}

func (m message) close() {
	for _, f := range m.files {
		_ = f.Close()
	}
}

// read passes requests on until the server is gone, and returns why it ended.
func (s *service) read(ctx context.Context, requests chan<- message) error {
	for {
		var m message
		var err error
		m.files, err = s.conn.receive(&m.request)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return errServerGone
		case err != nil:
			return err
		}
		select {
		case requests <- m:
		case <-ctx.Done():
			m.close()
			return context.Cause(ctx)
		}
	}
}

// loop starts a goroutine for each request until ctx ends.
func (s *service) loop(ctx context.Context, requests <-chan message) {
	for {
		select {
		case m := <-requests:
			ctx, e := ctx, (*entry)(nil)
			if m.Op == opStart {
				ctx, e = s.admit(ctx, m.Sandbox) // before anything asks for its end
			}
			s.calls.Go(func() { s.answer(ctx, m, e) })
		case <-ctx.Done():
			return
		}
	}
}

// end ends what is left, in bounded time. ctx is that of the requests, which
// has ended or need not any more.
func (s *service) end(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errServerGone) {
		cause = nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), closeTimeout, errors.New("what is left could not be ended in time"))
	defer cancel()
	_, err := within(ctx, func() (struct{}, error) {
		s.calls.Wait()
		return struct{}{}, s.runner.Close()
	})
	return errors.Join(cause, err)
}

func (s *service) answer(ctx context.Context, m message, e *entry) {
	defer m.close()
	usage, err := s.do(ctx, m, e)
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, context.Canceled) || errors.Is(err, errServerGone) {
			level = slog.LevelDebug // whoever asked does not want it any more
		}
		s.log.LogAttrs(ctx, level, "request", slog.String("op", string(m.Op)), slog.Any("error", err))
	}
	if m.Op == opWake {
		return
	}
	// A server that is gone gets no answer; read sees that too.
	_ = s.conn.send(reply{ID: m.ID, Usage: usage, Error: toWire(err)})
}

func (s *service) do(ctx context.Context, m message, e *entry) (sandbox.Usage, error) {
	switch m.Op {
	case opStart:
		return sandbox.Usage{}, s.start(ctx, m, e)
	case opDestroy:
		return sandbox.Usage{}, s.destroy(ctx, m.Sandbox)
	case opWake:
		if w, ok := s.find(m.Sandbox).(sandbox.Waker); ok {
			return sandbox.Usage{}, w.Wake(ctx)
		}
		return sandbox.Usage{}, nil
	case opPreloaded:
		return sandbox.Usage{}, s.preloaded(ctx, m.Spec)
	case opRefresh, opUsage:
		c := s.find(m.Sandbox)
		if c == nil {
			return sandbox.Usage{}, fault.New(fault.Gone, "the sandbox has ended; call again")
		}
		if m.Op == opUsage {
			return c.Usage(ctx)
		}
		return sandbox.Usage{}, c.Refresh(ctx)
	}
	return sandbox.Usage{}, fault.New(fault.Invalid, "the shim knows no request %q; are both programs of one version?", m.Op)
}

// preloaded waits until modules are imported, but less long than a request may
// take.
func (s *service) preloaded(ctx context.Context, spec sandbox.Spec) error {
	p, ok := s.runner.(sandbox.Preloader)
	if !ok {
		return fault.New(fault.Unavailable, "this shim imports nothing in advance")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout/2, fault.New(fault.Timeout, "modules are still being imported"))
	defer cancel()
	return p.Preloaded(ctx, spec)
}

// find returns a sandbox that is started, or nil.
func (s *service) find(id uint64) sandbox.Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.live[id]
	if e == nil {
		return nil
	}
	select {
	case <-e.started:
		return e.c
	default:
		return nil
	}
}

// admit makes the entry of a sandbox that is to be started, nil if it may not,
// and the context of its start.
func (s *service) admit(ctx context.Context, id uint64) (context.Context, *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[id] != nil || len(s.live) >= maxSandboxes {
		return ctx, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	s.live[id] = &entry{cancel: cancel, started: make(chan struct{})}
	return ctx, s.live[id]
}

// start starts the sandbox that the server calls m.Sandbox. ctx and e are from
// admit.
func (s *service) start(ctx context.Context, m message, e *entry) (err error) {
	if e == nil {
		return fault.New(fault.Busy, "too many sandboxes; try again when some have ended")
	}
	defer close(e.started)
	defer e.cancel()
	if len(m.files) != 1 {
		err = errors.New("start needs one descriptor")
	} else {
		e.c, err = s.runner.Start(ctx, m.Spec, m.files[0])
	}
	if err != nil {
		s.forget(m.Sandbox, e)
	}
	return err
}

// destroy ends a sandbox, also one that is still being started.
func (s *service) destroy(ctx context.Context, id uint64) error {
	s.mu.Lock()
	e := s.live[id]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	e.cancel()
	<-e.started
	if e.c == nil {
		return nil
	}
	if err := e.c.Destroy(ctx); err != nil {
		return err
	}
	s.forget(id, e)
	return nil
}

// forget takes a sandbox off the list, if it is still e.
func (s *service) forget(id uint64, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[id] == e {
		delete(s.live, id)
	}
}
