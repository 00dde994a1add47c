package watch

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// endOthers kills everything in the sandbox but its first process, until nothing
// is left: what was killed makes no more processes, so that a storm of them dies
// away. It gives up at stop, and after endWait with an error.
func (in *inside) endOthers(stop <-chan struct{}) error {
	limit := time.NewTimer(endWait)
	defer limit.Stop()
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		left, err := in.killOthers()
		if err == nil && left == 0 {
			return nil
		}
		select {
		case <-pause.C:
		case <-stop:
			return nil
		case <-limit.C:
			return errors.Join(fmt.Errorf("%d processes are left after %v", left, endWait), err)
		}
	}
}

// killOthers kills all processes but the first, and returns how many there were.
func (in *inside) killOthers() (int, error) {
	pids, err := in.pids()
	if err != nil {
		return 0, err
	}
	left := 0
	var errs []error
	for _, pid := range pids {
		if pid == 1 {
			continue
		}
		if t, ok := in.task(pid); !ok || t.dead {
			continue
		}
		left++
		errs = append(errs, in.kill(pid))
	}
	return left, errors.Join(errs...)
}

// kill kills one process: a directory of /proc names it as a pidfd does.
func (in *inside) kill(pid int) error {
	dir, err := in.open(strconv.Itoa(pid), unix.O_DIRECTORY)
	if err == nil {
		defer dir.Close()
		err = unix.PidfdSendSignal(int(dir.Fd()), unix.SIGKILL, nil, 0)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
