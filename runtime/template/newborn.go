package template

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// birthTimeout is for each step of a birth.
const birthTimeout = 10 * time.Second

// A Birth says what the first process of a sandbox is to be.
type Birth struct {
	// Control is its end of the socket to its server.
	Control *os.File
	// Errors is its standard error.
	Errors *os.File
	// Plain says that it is to have no modules.
	Plain bool
	// IDs is the map of its user namespace (user_namespaces(7)); "" lets it have
	// the template's own id, as its 0.
	IDs string
}

// A Newborn is the first process of a pid namespace, in a user namespace of its
// own, which waits for a container to be made around it.
type Newborn struct {
	// PID is its id here. It is nobody else's until Self says that it ended and it
	// was waited for: it is this process's child, or will be in a moment.
	PID int
	// Self is it as a pidfd. It is the caller's.
	Self *os.File

	peer *peer
}

var errClosed = errors.New("the template was closed")

// Fork forks a first process. It has the modules if there is a template with
// them by now. After an error nothing is left behind but, for a moment, a process
// that is about to end.
func (t *Template) Fork(ctx context.Context, b Birth) (*Newborn, error) {
	t.births.RLock()
	defer t.births.RUnlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(errClosed) })() //nolint:contextcheck // it ends with the template too
	if t.ctx.Err() != nil {
		return nil, errClosed
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	ids := "given"
	if b.IDs == "" {
		ids = "own"
	}
	from := t.plain
	if !b.Plain {
		from = t.best()
	}
	err = from.send("sandbox "+ids, theirs, b.Control, b.Errors)
	_ = theirs.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask a template: %w", err), ours.close())
	}
	n := &Newborn{peer: ours}
	if err := n.conceive(ctx, b.IDs); err != nil {
		return nil, errors.Join(fmt.Errorf("fork from a template: %w", err), ours.close())
	}
	if err := n.born(ctx); err != nil {
		t.work.Go(n.forsake)
		return nil, fmt.Errorf("fork from a template: %w", err)
	}
	return n, nil
}

// conceive waits for a user namespace and gives it its ids, which lets the process
// go on; after an error it ends.
func (n *Newborn) conceive(ctx context.Context, ids string) error {
	pid, err := n.expect(ctx, "user")
	if err != nil {
		return err
	}
	if ids != "" {
		// The process waits for an answer: the id is its own.
		for _, name := range []string{"uid_map", "gid_map"} {
			if err := writeFile(fmt.Sprintf("/proc/%d/%s", pid, name), ids); err != nil {
				return err
			}
		}
	}
	return n.peer.send("mapped")
}

// born waits for the first process of a pid namespace.
func (n *Newborn) born(ctx context.Context) (err error) {
	if n.PID, err = n.expect(ctx, "born"); err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(n.PID, unix.PIDFD_NONBLOCK) // waited for by poll
	if err != nil {
		_ = unix.Kill(n.PID, unix.SIGKILL)
		return fmt.Errorf("open the process: %w", err)
	}
	n.Self = os.NewFile(uintptr(fd), "first process")
	return nil
}

// forsake waits for a process that nobody wants any more, to be born and to end.
func (n *Newborn) forsake() {
	ctx, cancel := context.WithTimeout(context.Background(), birthTimeout) //nolint:forbidigo // whose context it was has ended
	defer cancel()
	_ = n.peer.unix.SetReadDeadline(time.Time{})
	err := n.born(ctx)
	n.Abandon()
	if err != nil {
		return // it ended before
	}
	_, _ = Wait(n.Self)
	_ = n.Self.Close()
}

// Join has the process join namespaces and confine itself. It returns when that
// is done; the process then speaks with its server. After an error the process
// ends, which is the caller's to wait for.
func (n *Newborn) Join(ctx context.Context, namespaces []*os.File) error {
	err := n.peer.send("join", namespaces...)
	if err == nil {
		_, err = n.expect(ctx, "joined")
	}
	if err != nil {
		err = fmt.Errorf("join the sandbox: %w", err)
	}
	return errors.Join(err, n.peer.close())
}

// Abandon lets a process end that has not joined.
func (n *Newborn) Abandon() { _ = n.peer.close() }

// expect waits for a message and returns its sender.
func (n *Newborn) expect(ctx context.Context, wanted string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, birthTimeout, fmt.Errorf("it did not get to %q within %v", wanted, birthTimeout))
	defer cancel()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = n.peer.unix.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-ended // what is read next has another deadline
		}
	}()
	message, pid, err := n.peer.receive()
	switch {
	case err == nil && message == wanted:
		return pid, nil // also when ctx has ended: it is said once
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, fmt.Errorf("wait for %q: %w", wanted, err)
	}
	return 0, fmt.Errorf("instead of %q: %s", wanted, strings.TrimPrefix(message, "failed "))
}

// writeFile writes a file of /proc with one call, as some must be.
func writeFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:forbidigo // the kernel's
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
