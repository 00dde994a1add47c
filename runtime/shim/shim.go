// Package shim is the protocol between the server and the small program that
// makes containers, both ends of it: the server's end is a sandbox.Runner, the
// shim's end serves one. Messages are packets of JSON over a socket pair, with
// descriptors passed along. Either end may die at any moment: the shim ends
// with its server, the sandboxes with the shim.
package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox"
)

// Bounds of waiting for the shim: a request, and its end.
const (
	requestTimeout = 30 * time.Second
	endTimeout     = 10 * time.Second
)

// Options say how to start a shim.
type Options struct {
	// Path is the shim's program file.
	Path string
	// Instance names this server among all that run on the host.
	Instance string
	Log      *slog.Logger
	// Stderr takes what the shim logs.
	Stderr io.Writer

	ungrouped bool // make no control group, as where none can be had
	cold      bool // have no templates, as where none can be had
}

// A Runner is the server's end. A shim that died is replaced at the next Start.
type Runner struct {
	o Options

	mu     sync.Mutex
	link   *link // mu; nil before the first Start and after Close
	closed bool  // mu
}

var (
	_ sandbox.Runner    = (*Runner)(nil)
	_ sandbox.Preloader = (*Runner)(nil)
)

// New returns a Runner. It starts nothing.
func New(o Options) *Runner { return &Runner{o: o} }

// Start implements sandbox.Runner.
func (r *Runner) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	l, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	id := l.next.Add(1)
	c := &container{link: l, id: id}
	if _, err := l.call(ctx, request{Op: opStart, Sandbox: id, Spec: spec}, control); err != nil {
		// It may have started all the same, when nobody waited for it any more.
		return nil, errors.Join(err, c.Destroy(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Preloaded implements sandbox.Preloader. It starts the shim if there is none.
func (r *Runner) Preloaded(ctx context.Context, spec sandbox.Spec) error {
	for {
		l, err := r.connect(ctx)
		if err != nil {
			return err
		}
		_, err = l.call(ctx, request{Op: opPreloaded, Spec: spec})
		if fault.KindOf(err) != fault.Timeout || ctx.Err() != nil {
			return err
		}
	}
}

// Limited says which limits the kernel enforces for each sandbox as a whole. It
// starts the shim if there is none.
func (r *Runner) Limited(ctx context.Context) (Setup, error) {
	l, err := r.connect(ctx)
	if err != nil {
		return Setup{}, err
	}
	return l.setup, nil
}

// Close implements sandbox.Runner: it ends the shim, and with it the sandboxes.
func (r *Runner) Close() error {
	r.mu.Lock()
	l := r.link
	r.link, r.closed = nil, true
	r.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.end(endTimeout)
}

// connect returns the link to a living shim.
func (r *Runner) connect(ctx context.Context) (*link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fault.New(fault.Unavailable, "the server is stopping; call again when it is back")
	}
	if r.link != nil {
		select {
		case <-r.link.gone:
			// What a freezer holds of its sandboxes, and with them its end, is ended soon.
			err := r.link.end(time.Second)
			r.o.Log.WarnContext(ctx, "the shim ended and is replaced", slog.Any("error", err))
		default:
			return r.link, nil
		}
	}
	if _, err := Libcontainer(r.o.Path); errors.Is(err, ErrOld) {
		return nil, err // of a file that tells nothing, its hello tells
	}
	l, err := start(ctx, r.o)
	if err != nil {
		return nil, err
	}
	r.link = l
	return l, nil
}

// A link is a running shim.
type link struct {
	conn    *conn
	process *process
	setup   Setup
	next    atomic.Uint64
	gone    chan struct{} // closed when the shim no longer answers

	mu      sync.Mutex
	waiting map[uint64]chan reply // mu
}

// call sends a request and waits for its reply, or for the end of ctx, of the
// shim, or of the time that a request may take.
func (l *link) call(ctx context.Context, r request, files ...*os.File) (sandbox.Usage, error) {
	r.ID = l.next.Add(1)
	answer := make(chan reply, 1)
	l.mu.Lock()
	l.waiting[r.ID] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waiting, r.ID)
		l.mu.Unlock()
	}()
	if err := l.conn.send(r, files...); err != nil {
		if errors.Is(err, unix.EPIPE) {
			// Whoever tries again is to find that read has seen it, and get a new shim.
			select {
			case <-l.gone:
			case <-ctx.Done():
			}
		}
		return sandbox.Usage{}, fault.Wrap(fault.Gone, err, "the sandbox has ended with its shim; call again")
	}
	limit := time.NewTimer(requestTimeout)
	defer limit.Stop()
	select {
	case a := <-answer:
		return a.Usage, a.Error.err()
	case <-ctx.Done():
		return sandbox.Usage{}, context.Cause(ctx)
	case <-l.gone:
		return sandbox.Usage{}, fault.New(fault.Gone, "the sandbox has ended with its shim; call again")
	case <-limit.C:
		return sandbox.Usage{}, fmt.Errorf("the shim did not answer %q within %v", r.Op, requestTimeout)
	}
}

// read hands replies to those who wait for them, until the shim is gone.
func (l *link) read() {
	defer close(l.gone)
	for {
		var a reply
		files, err := l.conn.receive(&a)
		for _, f := range files {
			_ = f.Close() // the shim passes none
		}
		if err != nil {
			return
		}
		l.mu.Lock()
		if c := l.waiting[a.ID]; c != nil {
			c <- a
			delete(l.waiting, a.ID)
		}
		l.mu.Unlock()
	}
}

// end closes the server's end, which ends the shim, waits for it, ends it after
// limit, and removes its control group.
func (l *link) end(limit time.Duration) error {
	_ = l.conn.unix.CloseWrite()
	_ = l.conn.unix.CloseRead()
	err := l.process.wait(limit)
	<-l.gone
	return errors.Join(err, l.conn.unix.Close())
}

// A container is a sandbox at the other end.
type container struct {
	link *link
	id   uint64
}

func (c *container) Refresh(ctx context.Context) error {
	_, err := c.link.call(ctx, request{Op: opRefresh, Sandbox: c.id})
	return err
}

// Wake implements sandbox.Waker. Where control groups limit memory there is
// nobody to wake.
func (c *container) Wake(context.Context) error {
	if c.link.setup.Limits.Memory {
		return nil
	}
	return c.link.conn.send(request{Op: opWake, Sandbox: c.id})
}

func (c *container) Usage(ctx context.Context) (sandbox.Usage, error) {
	return c.link.call(ctx, request{Op: opUsage, Sandbox: c.id})
}

func (c *container) Destroy(ctx context.Context) error {
	_, err := c.link.call(ctx, request{Op: opDestroy, Sandbox: c.id})
	select {
	case <-c.link.gone:
		return nil // it ended with its shim
	default:
		return err
	}
}
