package headline

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/sandbox"
)

// A reason says to a program how code ended.
type reason string

// The reasons.
const (
	exited      reason = "exit"
	signalled   reason = "signal"
	timedOut    reason = "timeout"
	outOfMemory reason = "out_of_memory"
	cancelled   reason = "stopped"
	lost        reason = "lost"
)

func reasonOf(e sandbox.Exit) reason {
	switch {
	case e.OutOfMemory:
		return outOfMemory
	case e.TimedOut:
		return timedOut
	case e.Stopped:
		return cancelled
	case e.Lost != "":
		return lost
	case e.Signal != 0:
		return signalled
	}
	return exited
}

// Good says whether code ended by itself and without an error.
func Good(e sandbox.Exit) bool { return reasonOf(e) == exited && e.Code == 0 }

// Sentence says how code ended, and what to do about it. The limit is the time
// that it was given, of at most most.
func Sentence(e sandbox.Exit, limit, most time.Duration) string {
	text := ""
	switch reasonOf(e) {
	case exited:
		text = fmt.Sprintf("exit %d", e.Code)
	case signalled:
		text = "ended by signal " + signalName(e.Signal) + crash(e.Signal)
	case timedOut:
		text = fmt.Sprintf("ran past its %s limit; ", limitText(limit))
		if most > limit {
			text += fmt.Sprintf("pass a larger timeout_seconds (up to %s), or ", strings.TrimSuffix(limitText(most), " s"))
		}
		text += "do less in one call"
	case outOfMemory:
		text = "out of memory" + memory(e) + "; work on less at a time"
	case cancelled:
		text = "stopped before its end, because the client or the server asked for it"
	case lost:
		return "the sandbox ended: " + quote(e.Lost) + "; the next call gets a new one"
	}
	if e.MemoryLimit > 0 && !e.OutOfMemory {
		text += "; a process of it was ended: out of memory" + memory(e) + "; work on less at a time"
	}
	if e.Lost != "" {
		text += "; the sandbox ended with it, the next call gets a new one"
	}
	return text
}

// limitText is "60 s", and "1.5 s" where that is exact.
func limitText(d time.Duration) string {
	if d%time.Second == 0 {
		return human.Count(int64(d/time.Second)) + " s"
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

func memory(e sandbox.Exit) string {
	switch {
	case e.MemoryLimit == 0:
		return ""
	case e.MemoryPeak == 0:
		return fmt.Sprintf(" (limit %s)", human.Bytes(e.MemoryLimit))
	}
	return fmt.Sprintf(" (limit %s, peak %s)", human.Bytes(e.MemoryLimit), human.Bytes(e.MemoryPeak))
}

// signalName is "11 (SIGSEGV: segmentation fault)".
func signalName(n int) string {
	name := unix.SignalName(syscall.Signal(n))
	if name == "" {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d (%s: %s)", n, name, syscall.Signal(n))
}

// crash is the remedy for signals that a library's machine code ends with.
func crash(n int) string {
	switch syscall.Signal(n) {
	case unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGABRT:
		return "; import faulthandler and call faulthandler.enable() first to see where"
	}
	return ""
}
