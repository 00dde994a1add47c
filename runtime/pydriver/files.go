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

// memoryFile returns a file that holds text and cannot be changed.
func memoryFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("code", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "code")
	if _, err := io.WriteString(f, text); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// An output is a pipe out of a sandbox.
type output struct{ read, write *os.File }

// newOutput makes a pipe and starts a goroutine that copies what comes out to w,
// until every writer is gone or the deadline of the reading end has passed.
func newOutput(copies *sync.WaitGroup, w io.Writer) (*output, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	// Only our end: programs do not expect EAGAIN of their standard output.
	err := unix.SetNonblock(fds[0], true)
	o := &output{os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output")}
	if err == nil {
		// Code may open /dev/stdout, which asks the inode: it is ours, and the
		// code is another user.
		err = unix.Fchmod(fds[1], 0o666)
	}
	if err != nil {
		return nil, errors.Join(err, o.read.Close(), o.write.Close())
	}
	copies.Go(func() {
		defer o.read.Close()
		_, _ = io.Copy(w, o.read)
		// If w would take no more, the writers are not to wait for it.
		_, _ = io.Copy(io.Discard, o.read)
	})
	return o, nil
}

// handedOver closes our copy of the end that writes.
func (o *output) handedOver() { _ = o.write.Close() }

// endBy makes the copying end at t at the latest.
func (o *output) endBy(t time.Time) { _ = o.read.SetReadDeadline(t) }
