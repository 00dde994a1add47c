package pydriver

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox"
)

// ended says why the call was told to stop, instead of how its process took it.
func ended(ctx context.Context, e sandbox.Exit) sandbox.Exit {
	e.Code, e.Signal, e.OutOfMemory = 0, 0, false
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) || fault.KindOf(context.Cause(ctx)) == fault.Timeout {
		e.TimedOut = true
	} else {
		e.Stopped = true
	}
	return e
}

// lost ends a sandbox that is of no use any more.
func (p *Process) lost(ctx context.Context, why string) sandbox.Exit {
	e := sandbox.Exit{Lost: why}
	e.OutOfMemory = p.memory(ctx, &e)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	// Its error changes nothing for this call; what is left ends with the shim.
	_ = p.container.Destroy(ctx)
	return e
}

// exit reads a wait status (wait(2)). Code that ended well by its own account is
// not asked after: that would make each call longer.
func (p *Process) exit(ctx context.Context, status int) sandbox.Exit {
	if status == 0 {
		return sandbox.Exit{}
	}
	var e sandbox.Exit
	short := p.memory(ctx, &e)
	w := unix.WaitStatus(status)
	switch {
	case !w.Signaled():
		e.Code = w.ExitStatus()
	case short && w.Signal() == unix.SIGKILL:
		e.OutOfMemory = true
	default:
		e.Signal = int(w.Signal())
	}
	return e
}

// memory finds out whether a process was ended for want of memory since it was
// last asked, and what the limit was.
func (p *Process) memory(ctx context.Context, e *sandbox.Exit) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	u, err := p.container.Usage(ctx)
	if err != nil || !u.Limited {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	short := u.OOMKills > p.kills
	p.kills = u.OOMKills
	if short {
		e.MemoryLimit, e.MemoryPeak = p.spec.Limits.MemoryBytes, int64(u.PeakBytes)
	}
	return short
}
