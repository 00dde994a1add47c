package mcp

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// outbox writes lines in the order in which they were sent, each in one Write,
// so that one stays behind what was sent before it and a client that does not
// read holds up nobody who need not wait.
type outbox struct {
	lines  chan []byte
	finish chan struct{}
	// done is closed when nothing is written any more; err is set before.
	done chan struct{}
	err  error
}

func newOutbox() *outbox {
	return &outbox{lines: make(chan []byte, 64), finish: make(chan struct{}), done: make(chan struct{})}
}

// run writes to w until close is called or w fails.
func (o *outbox) run(w io.Writer) {
	defer close(o.done)
	for {
		select {
		case line := <-o.lines:
			if !o.write(w, line) {
				return
			}
			continue
		case <-o.finish:
		}
		for {
			select {
			case line := <-o.lines:
				if !o.write(w, line) {
					return
				}
			default:
				return
			}
		}
	}
}

func (o *outbox) write(w io.Writer, line []byte) bool {
	if _, err := w.Write(line); err != nil {
		o.err = fmt.Errorf("write to the client: %w", err)
	}
	return o.err == nil
}

// send waits until the line has its place, or for nothing once the outbox is
// done: then the line is lost.
func (o *outbox) send(line []byte) {
	select {
	case o.lines <- line:
	case <-o.done:
	}
}

// try is send for a line that may be dropped. It does not wait.
func (o *outbox) try(line []byte) bool {
	select {
	case o.lines <- line:
		return true
	default:
		return false
	}
}

// close writes what was sent before it and returns when that is done or patience
// is over. It is called once.
func (o *outbox) close(patience time.Duration) error {
	close(o.finish)
	if !within(patience, o.done) {
		return errors.New("write to the client: it does not read")
	}
	return o.err
}
