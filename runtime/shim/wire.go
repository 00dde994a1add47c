package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
)

// version is that of the protocol; server and shim must be of one.
const version = 3

// maxPacket bounds one message; the kernel's default buffers take as much.
const maxPacket = 128 << 10

// An op is what is asked of the shim.
type op string

const (
	opStart     op = "start"
	opRefresh   op = "refresh"
	opUsage     op = "usage"
	opDestroy   op = "destroy"
	opPreloaded op = "preloaded" // a Timeout says to ask again
	opWake      op = "wake"      // has no reply
)

// A request names what is to be done; it holds no path, id or flag.
type request struct {
	ID      uint64       `json:"id"`
	Op      op           `json:"op"`
	Sandbox uint64       `json:"sandbox"`
	Spec    sandbox.Spec `json:"spec,omitzero"`
}

// A reply answers the request of the same id. The first reply of all has id 0
// and is the shim's hello.
type reply struct {
	ID    uint64        `json:"id"`
	Hello *hello        `json:"hello,omitempty"`
	Error *wireError    `json:"error,omitempty"`
	Usage sandbox.Usage `json:"usage,omitzero"`
}

type hello struct {
	Version int `json:"version"`
}

// A wireError carries a fault over the wire, or another error as its text.
type wireError struct {
	Kind  fault.Kind `json:"kind,omitempty"`
	Text  string     `json:"text,omitempty"`
	Cause string     `json:"cause,omitempty"`
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return &wireError{Kind: f.Kind(), Text: f.Text(), Cause: err.Error()}
	}
	return &wireError{Cause: err.Error()}
}

func (w *wireError) err() error {
	switch {
	case w == nil:
		return nil
	case w.Text != "":
		return fault.Wrap(w.Kind, errors.New(w.Cause), "%s", w.Text)
	}
	return fmt.Errorf("shim: %s", w.Cause)
}

// A conn sends and receives messages; sending is safe from several goroutines.
type conn struct {
	unix *net.UnixConn
	mu   sync.Mutex // one sender at a time
}

// newConn takes over f, one end of a SOCK_SEQPACKET pair, and closes it.
func newConn(f *os.File) (*conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use the shim's socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("the shim's socket is not a unix socket"), c.Close())
	}
	return &conn{unix: u}, nil
}

func (c *conn) send(v any, files ...*os.File) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > maxPacket {
		return fmt.Errorf("message of %d bytes to the shim, more than %d", len(data), maxPacket)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A peer that reads no more is as good as gone, for all who send.
	if err := c.unix.SetWriteDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	_, _, err = c.unix.WriteMsgUnix(data, rights, nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.unix.CloseWrite()
		_ = c.unix.CloseRead()
	}
	return err
}

// receive decodes the next message into v and returns the descriptors that came
// with it, which are the caller's. It returns io.EOF when the peer is gone.
func (c *conn) receive(v any) ([]*os.File, error) {
	data := make([]byte, maxPacket)
	rights := make([]byte, unix.CmsgSpace(4*4))
	n, nr, flags, _, err := c.unix.ReadMsgUnix(data, rights)
	files := filesOf(rights[:nr])
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("message over the shim's socket is too large")
	default:
		err = json.Unmarshal(data[:n], v)
	}
	if err != nil {
		for _, f := range files {
			_ = f.Close()
		}
		return nil, err
	}
	return files, nil
}

func filesOf(rights []byte) []*os.File {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files
}

// Setup is what the server tells the shim at its birth.
type Setup struct {
	// Cgroup is the control group for sandboxes, "" if there is none.
	Cgroup string
	// Limits are those that can be set there.
	Limits cgroup.Limits
	// Cold says that each sandbox starts Python anew, from no template.
	Cold bool
}

// Instead says what stands in for the limits that no control group can set, ""
// if there is none such. Processes are always limited.
func (s Setup) Instead() string {
	var parts []string
	if !s.Limits.Memory {
		parts = append(parts, "memory is held by a watcher, which ends a call that passes its limit (by some 100 MB for a moment)")
	}
	if !s.Limits.CPU {
		parts = append(parts, "processors are not limited, but code runs at low priority")
	}
	if len(parts) == 0 && !s.Limits.PIDs {
		parts = append(parts, "processes are limited by setrlimit(2)")
	}
	return strings.Join(parts, "; ")
}
