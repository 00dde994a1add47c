package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// limits bound what one connection may make the server hold.
type limits struct {
	message  int           // bytes of one message
	requests int           // requests in flight
	bytes    int           // bytes of the messages of requests in flight
	linger   time.Duration // how long calls may take to end once they must
}

func defaultLimits() limits {
	return limits{message: 64_000_000, requests: 1000, bytes: 256_000_000, linger: 10 * time.Second}
}

// Stdio serves one client that writes its messages to in, one a line, and reads
// the answers from out. Each message of the server is one Write of one line; a
// line of the client may have 64 MB, of which no more is held than MaxCall says,
// and one that is longer or not JSON is refused without ending the connection.
//
// It serves until in ends, ctx ends or out fails. Then no new calls are carried
// out; those in flight have the time grace to end, then their context ends with
// ErrStopping as its cause, and the client still gets their answers. A nil error
// means that every call has ended and every answer was written.
//
// The library has a transport of its own for this, but there calls wait where
// nobody can cancel them, and share their cancel functions by the text of the
// request's id; in's end cancels everything; and progress overtakes results.
//
// Stdio returns without having read in to its end when ctx ends: one read may
// still be going on, and ends when the caller closes in or the process exits.
func (s *Server) Stdio(ctx context.Context, in io.Reader, out io.Writer, grace time.Duration) error {
	calls, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	c := newConn(s)
	go c.out.run(out)
	read := make(chan error, 1)
	go func() { read <- c.read(calls, in) }()
	var err error
	select {
	case err = <-read:
	case <-ctx.Done():
	case <-c.out.done:
	}
	return errors.Join(err, c.stop(end, grace))
}

// read takes the messages of in until its end, which is a nil error.
func (c *conn) read(ctx context.Context, in io.Reader) error {
	lines := newLines(in, c.limits.message)
	for {
		lines.max = c.limits.message
		if held := c.server.maxCall; held != nil {
			lines.max = min(lines.max, held())
		}
		line, err := lines.next()
		if long, ok := errors.AsType[*tooLong](err); ok {
			c.out.send(errorLine(long.id(), invalidRequest, c.long(long)))
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the client: %w", err)
		}
		c.take(ctx, line)
	}
}

// long is what the sender of a message is told that is too long.
func (c *conn) long(t *tooLong) string {
	if t.size > c.limits.message {
		return fmt.Sprintf("a message may have %d bytes and this one has %d; send less at once", c.limits.message, t.size)
	}
	return fmt.Sprintf("no tool of this server takes a call of %d bytes, the most is %d; send less at once", t.size, t.max)
}

// stop refuses new calls, lets those in flight end as Stdio says, and closes the
// way to the client.
func (c *conn) stop(end context.CancelCauseFunc, grace time.Duration) error {
	idle := c.drain()
	var err error
	if !within(grace, idle) {
		end(ErrStopping)
		if !within(c.limits.linger, idle) {
			err = fmt.Errorf("%d calls did not end when the server stopped", c.inFlight())
		}
	}
	return errors.Join(err, c.out.close(c.limits.linger))
}

// within reports whether done is closed before d is over.
func within(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
