package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxMessage bounds what a template says at a time.
const maxMessage = 64 << 10

// A process is a template process at the other end of a socket.
type process struct {
	peer  *peer
	heard chan string   // what it says
	gone  chan struct{} // closed when it says no more

	loaded  []string
	skipped map[string]string

	mu    sync.Mutex
	pidfd int  // mu; -1 until it has said something
	ended bool // mu
}

// newProcess takes over the socket of a process and listens to it.
func newProcess(ours *peer) *process {
	p := &process{peer: ours, heard: make(chan string, 1), gone: make(chan struct{}), skipped: map[string]string{}, pidfd: -1}
	go p.listen()
	return p
}

// listen passes on what the process says, until it has ended or was ended. What
// nobody waits for ends it: a template that is ready says nothing.
func (p *process) listen() {
	defer close(p.gone)
	for {
		message, pid, err := p.peer.receive()
		if err != nil {
			return
		}
		if !p.meet(pid) {
			return
		}
		select {
		case p.heard <- message:
		case <-time.After(readyTimeout):
			return
		}
	}
}

// meet opens the process of that id, which has just said something; false if it
// is to end already.
func (p *process) meet(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 && !p.ended {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			p.pidfd = fd
		}
	}
	return !p.ended
}

// next returns what the process says next.
func (p *process) next(ctx context.Context) (string, error) {
	select {
	case m := <-p.heard:
		return m, nil
	default:
	}
	select {
	case m := <-p.heard:
		return m, nil
	case <-p.gone:
		select {
		case m := <-p.heard:
			return m, nil
		default:
			return "", errors.New("it ended")
		}
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *process) send(text string, files ...*os.File) error { return p.peer.send(text, files...) }

// kill ends the process.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.pidfd >= 0 {
		killed(p.pidfd)
	}
}

// end kills the process and lets go what belongs to it. Whose child it is waits
// for it. Ending twice is no error.
func (p *process) end() {
	p.kill()
	p.mu.Lock()
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
		p.pidfd = -1
	}
	p.mu.Unlock()
	_ = p.peer.shut()
	for open := true; open; {
		select {
		case <-p.heard:
		case <-p.gone:
			open = false
		}
	}
	_ = p.peer.close()
}

// bury waits for a process that was killed and whose parent has ended, unless that
// has done so, and ends what is left of it.
func (p *process) bury() {
	p.mu.Lock()
	if p.pidfd >= 0 {
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, int(adoptTime.Milliseconds()))
		// ECHILD: its parent has waited for it.
		_ = unix.Waitid(unix.P_PIDFD, p.pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
	}
	p.mu.Unlock()
	p.end()
}

// A peer is one end of a SOCK_SEQPACKET socket, which tells the sender's id as
// the kernel knows it (SO_PASSCRED in unix(7)).
type peer struct {
	unix *net.UnixConn
	mu   sync.Mutex // one sender at a time
}

// pair returns both ends of a socket: ours, and one to pass along.
func pair() (*peer, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "template"), os.NewFile(uintptr(fds[1]), "shim")
	defer ours.Close()
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return &peer{unix: c.(*net.UnixConn)}, theirs, nil
}

func (p *peer) send(text string, files ...*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _, err := p.unix.WriteMsgUnix([]byte(text), rights, nil)
	return err
}

// receive returns the next message and its sender's id in this process's
// namespace; io.EOF when the other end is closed.
func (p *peer) receive() (string, int, error) {
	data, control := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, nc, flags, _, err := p.unix.ReadMsgUnix(data, control)
	switch {
	case err != nil:
		return "", 0, err
	case n == 0:
		return "", 0, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return "", 0, errors.New("a template's message is too large")
	}
	messages, err := unix.ParseSocketControlMessage(control[:nc])
	if err != nil {
		return "", 0, err
	}
	for _, m := range messages {
		if c, err := unix.ParseUnixCredentials(&m); err == nil {
			return string(data[:n]), int(c.Pid), nil
		}
	}
	return "", 0, errors.New("a template's message has no sender")
}

// shut ends reading and writing, also of whoever waits.
func (p *peer) shut() error { return errors.Join(p.unix.CloseRead(), p.unix.CloseWrite()) }

func (p *peer) close() error { return p.unix.Close() }
