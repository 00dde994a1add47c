package shim

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox"
)

// maxSandboxes bounds what one server may have at a time.
const maxSandboxes = 4096

// Serve answers the server at the other end of socket until that end is closed,
// by will or by death; then it closes runner and returns. It takes over socket.
// newRunner is called once, while the end of the server is already being
// watched: gone is called as soon as it is gone.
func Serve(ctx context.Context, socket *os.File, log *slog.Logger, newRunner func() (sandbox.Runner, error)) error {
	c, err := newConn(socket)
	if err != nil {
		return err
	}
	defer c.unix.Close()
	runner, err := newRunner()
	if err != nil {
		return errors.Join(err, c.send(reply{Error: toWire(err)}))
	}
	s := &service{conn: c, runner: runner, log: log, live: map[uint64]sandbox.Container{}}
	if err := c.send(reply{Hello: &hello{Version: version}}); err != nil {
		return errors.Join(err, runner.Close())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	err = s.loop(ctx)
	cancel(errors.New("the server is gone"))
	s.calls.Wait()
	return errors.Join(err, runner.Close())
}

type service struct {
	conn   *conn
	runner sandbox.Runner
	log    *slog.Logger
	calls  sync.WaitGroup

	mu   sync.Mutex
	live map[uint64]sandbox.Container // mu
}

// loop starts a goroutine for each request.
func (s *service) loop(ctx context.Context) error {
	for {
		var r request
		files, err := s.conn.receive(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.calls.Go(func() {
			usage, err := s.do(ctx, r, files)
			for _, f := range files {
				_ = f.Close()
			}
			if err != nil {
				s.log.WarnContext(ctx, "request", slog.String("op", string(r.Op)), slog.Any("error", err))
			}
			// A server that is gone gets no answer; loop sees that too.
			_ = s.conn.send(reply{ID: r.ID, Usage: usage, Error: toWire(err)})
		})
	}
}

func (s *service) do(ctx context.Context, r request, files []*os.File) (sandbox.Usage, error) {
	if r.Op == opStart {
		return sandbox.Usage{}, s.start(ctx, r, files)
	}
	s.mu.Lock()
	c := s.live[r.Sandbox]
	if r.Op == opDestroy {
		delete(s.live, r.Sandbox)
	}
	s.mu.Unlock()
	if c == nil {
		if r.Op == opDestroy {
			return sandbox.Usage{}, nil
		}
		return sandbox.Usage{}, fault.New(fault.Gone, "the sandbox has ended")
	}
	switch r.Op {
	case opRefresh:
		return sandbox.Usage{}, c.Refresh(ctx)
	case opUsage:
		return c.Usage(ctx)
	case opDestroy:
		return sandbox.Usage{}, c.Destroy(ctx)
	}
	return sandbox.Usage{}, fault.New(fault.Invalid, "the shim knows no request %q; are both programs of one version?", r.Op)
}

// start starts the sandbox that the server will call r.Sandbox.
func (s *service) start(ctx context.Context, r request, files []*os.File) error {
	if len(files) != 1 {
		return errors.New("start needs one descriptor")
	}
	s.mu.Lock()
	_, taken := s.live[r.Sandbox]
	full := len(s.live) >= maxSandboxes
	s.mu.Unlock()
	if taken || full {
		return fault.New(fault.Busy, "too many sandboxes; try again when some have ended")
	}
	c, err := s.runner.Start(ctx, r.Spec, files[0])
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.live[r.Sandbox] = c
	s.mu.Unlock()
	return nil
}
