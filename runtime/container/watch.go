package container

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// takeRate is how fast one processor may take memory, in bytes a second. Here
// two take 4.3 GB/s together with the fastest calls there are: fallocate of a
// memory file, and MAP_POPULATE.
const takeRate = 4 << 30

// A watcher looks again after the time in which what is left could be taken,
// but neither sooner nor later than this, and no sooner than the last look took:
// it has at most half a processor.
//
// So memory passes its limit by at most what is taken in shortestWait, one look
// and the kill: takeRate × processors × some milliseconds. A look takes some 30
// to 80 µs a process, and where it must walk page tables 1 ms for each 100 MB that
// they map. Measured, with two processors and a limit of 1 GB: 5 to 80 MB past it
// with eight processes that do nothing else, 220 MB with a hundred.
const (
	shortestWait = 2 * time.Millisecond
	longestWait  = 100 * time.Millisecond
)

// lowLeft is taken to be left of a host that has nothing left.
const lowLeft = 128 << 20

// beginWait is how long a call that was told of may take to begin: the parent may
// have to end an import first.
const beginWait = time.Minute

// endWait bounds the end of what runs in a sandbox.
const endWait = 10 * time.Second

// A watcher holds a sandbox to its memory limit where no control group does. It
// looks often while anything but the first process runs there, and rests from
// then until it is woken. What passes the limit is ended, all of it but the
// first process.
type watcher struct {
	limit  uint64
	inside *inside
	host   *host
	log    *slog.Logger
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	rested atomic.Bool // no call runs since it was woken, only the first process

	mu    sync.Mutex
	peak  uint64 // mu; the most that was seen
	kills uint64 // mu; how often the limit was passed
}

// newWatcher starts watching a sandbox, in which only the first process runs. It
// takes over in.
func newWatcher(limit int64, in *inside, h *host, log *slog.Logger) *watcher {
	w := &watcher{
		limit: uint64(limit), inside: in, host: h, log: log,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go w.watch()
	return w
}

// close ends watching and waits for that. Preconditions: every process of the
// sandbox was killed, so that none keeps a look from its end.
func (w *watcher) close() {
	close(w.stop)
	<-w.done
	w.inside.close()
}

// call tells that a call is about to begin. It never waits.
func (w *watcher) call() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been told
	}
}

// rest tells that no call runs any more.
func (w *watcher) rest() { w.rested.Store(true) }

// usage returns how often the limit was passed, and the most that was seen since
// the last time.
func (w *watcher) usage() (kills, peak uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kills, peak = w.kills, w.peak
	w.peak = 0
	return kills, peak
}

func (w *watcher) watch() {
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
func (w *watcher) follow() {
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
func (w *watcher) look() (others int, next time.Duration) {
	start := time.Now()
	held, others, err := w.inside.look(w.limit)
	if err != nil {
		w.log.Error("look into a sandbox", slog.Any("error", err))
		return -1, longestWait
	}
	// What the host lacks, it lacks for longer than a look.
	onHost := w.host.left()
	left := min(w.limit-min(held, w.limit), max(onHost, lowLeft))
	past := others > 0 && (held > w.limit || onHost == 0 && w.inside.hides())
	next = max(wait(left), time.Since(start))
	if past {
		w.end(held)
	} else {
		w.note(held)
	}
	return others, next
}

// note remembers the most that was held.
func (w *watcher) note(held uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peak = max(w.peak, held)
}

// wait is the time in which what is left could be taken, within bounds.
func wait(left uint64) time.Duration {
	d := time.Duration(float64(left) / float64(takeRate*processors()) * float64(time.Second))
	return min(max(d, shortestWait), longestWait)
}

// end kills everything in the sandbox but its first process, until nothing is
// left: what was killed makes no more processes, so that a storm of them dies
// away. That it happens is counted first, for who learns of a process's end asks
// for the reason at once.
func (w *watcher) end(held uint64) {
	w.mu.Lock()
	w.kills++
	w.peak = max(w.peak, held)
	w.mu.Unlock()
	limit := time.Now().Add(endWait)
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		left, err := w.inside.killOthers()
		if err == nil && left == 0 {
			return
		}
		if time.Now().After(limit) {
			// Looking goes on, and kills again.
			w.log.Error("end what is past its memory limit", slog.Int("left", left), slog.Any("error", err))
			return
		}
		select {
		case <-pause.C:
		case <-w.stop:
			return
		}
	}
}

// openInside opens what a watcher reads, in the sandbox's own namespaces: no
// name of it is looked up there later.
func (c *Container) openInside() (*inside, error) {
	in := &inside{}
	err := c.inNamespaces(unix.CLONE_NEWNS|unix.CLONE_NEWIPC, func() (err error) {
		const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW
		if in.proc, err = openFile("/proc", flags|unix.O_DIRECTORY); err != nil {
			return err
		}
		in.segments, err = openFile("/proc/sysvipc/shm", flags)
		if errors.Is(err, unix.ENOENT) {
			return nil // the kernel has none
		}
		return err
	})
	if err == nil {
		in.memory, err = memoryDevice()
	}
	if err != nil {
		in.close()
		return nil, fmt.Errorf("open what tells of the sandbox's memory: %w", err)
	}
	return in, nil
}

// openFile opens name without telling Go's poller, which has no use for a file
// of /proc.
func openFile(name string, flags int) (*os.File, error) {
	fd, err := unix.Open(name, flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// memoryDevice returns the device that memory files and shared memory without a
// name are on.
func memoryDevice() (uint64, error) {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Dev, nil
}
