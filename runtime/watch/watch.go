// Package watch holds a sandbox to its memory limit where no control group does:
// it looks at what the sandbox's processes hold, often enough that no more than
// what is taken in some milliseconds goes past the limit, and ends them.
package watch

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// takeRate is how fast one processor may take memory, in bytes a second. Here
// two take 4.3 GB/s together with the fastest calls there are: fallocate of a
// memory file, and MAP_POPULATE.
const takeRate = 4 << 30

// A Watcher looks again after the time in which what is left could be taken,
// but neither sooner nor later than this, and no sooner than the last look took:
// it has at most half a processor.
//
// So memory passes its limit by at most what is taken in shortestWait, one look
// and the kill: takeRate × processors × some milliseconds. A look takes some 30
// to 80 µs a process, and where it must walk page tables 1 ms for each 100 MB that
// they map. Measured, with two processors and a limit of 1 GB: mostly 5 to 80 MB
// past it, 180 MB at worst, with eight processes that do nothing else, 220 MB with
// a hundred.
const (
	shortestWait = 2 * time.Millisecond
	longestWait  = 100 * time.Millisecond
)

// beginWait is how long a call that was told of may take to begin: the parent may
// have to end an import first.
const beginWait = time.Minute

// endWait bounds the end of what runs in a sandbox.
const endWait = 10 * time.Second

// A Watcher watches one sandbox. It looks often while anything but the first
// process runs there, and rests from then until it is woken. What passes the
// limit is ended, all of it but the first process. Its methods may be called
// from several goroutines.
type Watcher struct {
	limit  uint64
	inside *inside
	log    *slog.Logger
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	rested atomic.Bool // no call runs since it was woken, only the first process

	mu    sync.Mutex
	peak  uint64 // mu; the most that was seen
	kills uint64 // mu; how often the limit was passed
}

// Start watches a sandbox, in which only the first process runs, until Close.
// enter runs a function on a thread that is in the sandbox's mount and IPC
// namespaces. The limit is in bytes.
func Start(limit int64, log *slog.Logger, enter func(f func() error) error) (*Watcher, error) {
	in, err := openInside(enter)
	if err != nil {
		return nil, err
	}
	return newWatcher(limit, in, log), nil
}

// newWatcher takes over in.
func newWatcher(limit int64, in *inside, log *slog.Logger) *Watcher {
	w := &Watcher{
		limit: uint64(limit), inside: in, log: log,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go w.watch()
	return w
}

// Close ends watching and waits for that. Preconditions: every process of the
// sandbox was killed, so that none keeps a look from its end.
func (w *Watcher) Close() {
	close(w.stop)
	<-w.done
	w.inside.close()
}

// Wake tells that a call is about to begin. It never waits.
func (w *Watcher) Wake() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been told
	}
}

// Rest tells that no call runs any more, and takes over places, the directories
// of the sandbox that are file systems in memory from now on.
func (w *Watcher) Rest(places []*os.File) {
	w.inside.replace(places)
	w.rested.Store(true)
}

// Usage returns how often the limit was passed, and the most bytes that were
// seen since the last time.
func (w *Watcher) Usage() (kills, peak uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kills, peak = w.kills, w.peak
	w.peak = 0
	return kills, peak
}

func (w *Watcher) watch() {
	defer close(w.done)
	for {
		select {
		case <-w.wake:
			w.follow()
		case <-w.stop:
			return
		}
	}
}

// follow looks until nothing runs any more. A call that is over before memory
// could be short costs no look.
func (w *Watcher) follow() {
	timer := time.NewTimer(wait(w.limit / 2)) // the first process holds less than the rest
	defer timer.Stop()
	w.rested.Store(false)
	begun, last := 0, time.Now().Add(beginWait)
	for {
		select {
		case <-w.wake: // the next call already
			w.rested.Store(false)
			begun, last = 0, time.Now().Add(beginWait)
			continue
		case <-w.stop:
			return
		case <-timer.C:
		}
		if w.rested.Load() {
			return
		}
		others, next := w.look()
		if others == 0 && (begun > 0 || time.Now().After(last)) {
			return
		}
		begun += max(others, 0)
		timer.Reset(next)
	}
}

// look looks once, and ends what is past its limit. It returns how many
// processes there were besides the first, negative if that cannot be told, and
// when to look again.
func (w *Watcher) look() (others int, next time.Duration) {
	start := time.Now()
	held, others, err := w.inside.look(w.limit)
	if err != nil {
		w.log.Error("look into a sandbox", slog.Any("error", err))
		return -1, longestWait
	}
	next = max(wait(w.limit-min(held, w.limit)), time.Since(start))
	if others > 0 && held > w.limit {
		w.end(held)
	} else {
		w.note(held)
	}
	return others, next
}

// note remembers the most that was held.
func (w *Watcher) note(held uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peak = max(w.peak, held)
}

// wait is the time in which what is left could be taken, within bounds.
func wait(left uint64) time.Duration {
	d := time.Duration(float64(left) / float64(takeRate*processors()) * float64(time.Second))
	return min(max(d, shortestWait), longestWait)
}

// end ends what runs in the sandbox. That it does is counted first, for who learns
// of a process's end asks for the reason at once.
func (w *Watcher) end(held uint64) {
	w.mu.Lock()
	w.kills++
	w.peak = max(w.peak, held)
	w.mu.Unlock()
	if err := w.inside.endOthers(w.stop); err != nil {
		// Looking goes on, and ends them again.
		w.log.Error("end what is past its memory limit", slog.Any("error", err))
	}
}
