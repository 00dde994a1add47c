package template

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// adoptTime is how long a process that ended may take to become ours.
const adoptTime = 5 * time.Second

// Wait waits for the process that a pidfd is of, which need not be this one's
// child yet, and returns the code of its end (waitid(2)). It takes no thread
// meanwhile.
func Wait(pidfd *os.File) (status int, err error) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return 0, err
	}
	var werr error
	err = raw.Read(func(fd uintptr) bool {
		status, werr = ended(int(fd))
		return !errors.Is(werr, errRuns)
	})
	return status, errors.Join(err, werr)
}

var errRuns = errors.New("the process runs")

// ended waits for a process if it has ended, which else is errRuns.
func ended(pidfd int) (int, error) {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(fds, 0)
	}
	if n == 0 {
		return 0, errRuns
	}
	for deadline := time.Now().Add(adoptTime); ; {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD) && time.Now().Before(deadline):
			pause(time.Millisecond) // who forked it has not ended yet
		default:
			return int(info.Code), err
		}
	}
}

func pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}
