package pydriver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of what a stream may cost its reader. The first reads are made as soon
// as there is something. After them a stream of short writes is read every
// restTime, until it is quiet for quietTime: else each line would wake this
// process, and its writer would wait for that. A stream of long writes is read
// at once, with a rest whenever that took workTime: a flood of any bytes has
// less than half a processor, and its writer waits.
const (
	eagerReads = 64
	workTime   = time.Millisecond
	restTime   = time.Millisecond
	quietTime  = 20 * time.Millisecond
	longRead   = readSize / 4
	readSize   = 32 << 10
)

// An output is a pipe out of a sandbox.
type output struct {
	write *os.File

	mu   sync.Mutex
	read *os.File  // mu; nil while the pipe is only looked at now and then
	end  time.Time // mu; when reading ends at the latest; zero: with the last writer
}

// newOutput makes a pipe and starts a goroutine that copies what comes out to w,
// until every writer is gone or the deadline of endBy has passed. If w would
// take no more, the writers are not to wait for it: the rest is read all the
// same.
func newOutput(copies *sync.WaitGroup, w io.Writer) (*output, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	// Only our end: programs do not expect EAGAIN of their standard output.
	err := unix.SetNonblock(fds[0], true)
	o := &output{read: os.NewFile(uintptr(fds[0]), "output"), write: os.NewFile(uintptr(fds[1]), "output")}
	if err == nil {
		// Code may open /dev/stdout, which asks the inode: it is ours, and the
		// code is another user.
		err = unix.Fchmod(fds[1], 0o666)
	}
	if err != nil {
		return nil, errors.Join(err, o.read.Close(), o.write.Close())
	}
	copies.Go(func() {
		s := &sink{w: w, buf: make([]byte, readSize)}
		for o.eager(s) && o.paced(s) {
			continue
		}
		_ = o.read.Close()
	})
	return o, nil
}

// handedOver closes our copy of the end that writes.
func (o *output) handedOver() { _ = o.write.Close() }

// endBy makes the copying end at t at the latest.
func (o *output) endBy(t time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = t
	if o.read != nil {
		_ = o.read.SetReadDeadline(t)
	}
}

// A sink takes what is read.
type sink struct {
	w   io.Writer
	buf []byte
}

// take takes the first n bytes of the buffer.
func (s *sink) take(n int) {
	if n == 0 {
		return
	}
	if _, err := s.w.Write(s.buf[:n]); err != nil {
		s.w = io.Discard
	}
}

// eager reads what comes as soon as it does. It returns true when that is a
// stream of short writes, false at the end.
func (o *output) eager(s *sink) bool {
	var rest rest
	defer rest.stop()
	begin, short := time.Now(), 0
	for {
		n, err := o.read.Read(s.buf)
		s.take(n)
		if err != nil {
			return false
		}
		switch {
		case n >= longRead:
			short = 0
		case short == eagerReads:
			return true
		default:
			short++
		}
		if time.Since(begin) > workTime {
			if n >= longRead {
				rest.take()
			}
			begin = time.Now()
		}
	}
}

// paced reads what has come every restTime. It returns true when the stream is
// quiet or one of long writes, false at the end. Meanwhile the pipe is not among
// the descriptors that the runtime waits for, which would wake it at each write.
func (o *output) paced(s *sink) (more bool) {
	fd, ok := o.leave()
	if !ok {
		return true
	}
	defer o.comeBack(fd)
	var rest rest
	defer rest.stop()
	for last := time.Now(); time.Since(last) < quietTime; rest.take() {
		n, err := unix.Read(fd, s.buf)
		s.take(max(n, 0))
		switch {
		case n >= longRead:
			return true
		case n > 0:
			last = time.Now()
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			if o.late() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// leave takes the pipe from the runtime and returns its descriptor; false if it
// has no other.
func (o *output) leave() (fd int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raw, err := o.read.SyscallConn()
	if err != nil {
		return 0, false
	}
	if cerr := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || cerr != nil {
		return 0, false
	}
	_ = o.read.Close()
	o.read = nil
	return fd, true
}

// comeBack gives the pipe back to the runtime.
func (o *output) comeBack(fd int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.read = os.NewFile(uintptr(fd), "output")
	if !o.end.IsZero() {
		_ = o.read.SetReadDeadline(o.end)
	}
}

// late says whether reading is to have ended.
func (o *output) late() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.end.IsZero() && time.Now().After(o.end)
}

// A rest is a pause that can be taken again and again.
type rest struct{ timer *time.Timer }

func (r *rest) take() {
	if r.timer == nil {
		r.timer = time.NewTimer(restTime)
	} else {
		r.timer.Reset(restTime)
	}
	<-r.timer.C
}

func (r *rest) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
