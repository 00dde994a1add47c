package pydriver

import (
	"errors"
	"io"
	"os"

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
