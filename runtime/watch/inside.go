package watch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An inside tells what a sandbox holds in memory. It reads through descriptors
// of the sandbox's own /proc, so that it meets nobody else's processes. What it
// reads is the kernel's, about processes that may be hostile: every read is
// bounded, nothing is opened but /proc's own files, and a process that is gone,
// or cannot be looked into, is no error.
type inside struct {
	proc     *os.File
	segments *os.File // of System V; nil if the kernel has none
	memory   uint64   // the device of memory files
	device   uint64   // that of proc's files
	last     estimate // of whoever looks: one goroutine

	mu     sync.Mutex
	places []*os.File // mu; the directories that are file systems in memory
	closed bool       // mu
}

// Bounds of a look.
const (
	maxStatus   = 16 << 10
	maxProcs    = 1 << 16
	maxSegments = 1 << 20
	// maxFiles is how many descriptors a look asks for their files. Each more is
	// taken to be of farFile bytes, as many as a pipe holds.
	maxFiles = 32 << 10
	farFile  = 64 << 10
	// maxTables is how many bytes of page tables are walked in a look: 4 ms for each
	// megabyte. Where there are more, all that processes map counts as theirs.
	maxTables = 96 << 20
	// nearFile is what a descriptor costs the kernel, more or less: one end of a
	// pipe of two pages, which it is once its user has many.
	nearFile = 4 << 10
)

// openInside opens what a watcher reads, in the sandbox's own namespaces: no
// name of it is looked up there later.
func openInside(enter func(f func() error) error) (*inside, error) {
	in := &inside{}
	err := enter(func() (err error) {
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
	if err == nil {
		in.device, err = deviceOf(int(in.proc.Fd()))
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
	return deviceOf(fd)
}

// deviceOf returns the device that an open file is on.
func deviceOf(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Dev, nil
}

// close ends reading. Preconditions: nobody looks any more.
func (in *inside) close() {
	in.replace(nil)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	_ = in.proc.Close()
	_ = in.segments.Close() // also of none
}

// replace takes over places, instead of those that were there.
func (in *inside) replace(places []*os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	old := in.places
	if in.places = places; in.closed {
		old, in.places = places, nil
	}
	for _, f := range old {
		_ = f.Close()
	}
}

// A task is a process as a look saw it.
type task struct {
	pid    int
	parent int
	dir    string // below proc; of a living thread, if the first has ended
	dead   bool
	empty  bool // it has no memory any more: it is ending
	hidden bool // it lives in threads that were not met
	// threads are those of its process that were not taken away yet.
	threads uint64
	memoryOf
}

// memoryOf is what a process holds, in bytes.
type memoryOf struct {
	private uint64 // anonymous, swapped out or not, and what the kernel keeps for it
	shared  uint64 // of mapped memory files of any kind
	tables  uint64 // page tables, a part of private
	kept    uint64 // page tables and the table of descriptors, a part of private
}

// look returns how much memory the sandbox holds, and how many processes run
// there besides the first. The amount is exact only in being past limit or not.
func (in *inside) look(limit uint64) (held uint64, others int, err error) {
	pids, err := in.pids()
	if err != nil {
		return 0, 0, err
	}
	files := in.newFiles(limit)
	var tasks []task
	var sum memoryOf
	hidden := false
	for _, pid := range pids {
		t, ok := in.task(pid)
		if !ok || t.dead {
			continue
		}
		tasks = append(tasks, t)
		hidden = hidden || t.hidden
		sum.private += t.private
		sum.shared += t.shared
		sum.tables += t.tables
		if pid != 1 { // which is ours, and holds no file for long
			others++
			_ = files.add(t.dir + "/fd") // it is gone, or for a Guard to find
		}
	}
	files.bytes += in.placeBytes() + in.segmentBytes()
	// What is shared by several was counted for each, and shared memory that is
	// a file's twice: this is the most that it can be.
	held = sum.private + sum.shared + files.bytes
	if held+uint64(len(tasks))*inexact() > limit && sum.tables <= maxTables {
		held = in.better(tasks, files, limit)
	}
	if hidden { // no program of good will is so
		held = max(held, limit+1)
	}
	return held, others, nil
}

// better returns less than the sum of what processes map, where that holds: an
// estimate if it is below limit, else the exact sum.
func (in *inside) better(tasks []task, known *files, limit uint64) uint64 {
	now := in.marks(tasks) // before the sum: what comes meanwhile counts as new
	if most, ok := in.last.most(now, known.bytes); ok && most <= limit {
		return most
	}
	held := in.exact(tasks, known, limit)
	in.last = estimate{held: held, known: known.bytes, marks: now}
	if held > limit {
		in.last = estimate{} // it was not added up to the end
	}
	return held
}

// pids lists the sandbox's processes.
func (in *inside) pids() ([]int, error) {
	names, err := entries(in.proc, maxProcs)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// entries returns up to most names in a directory, which is read from its
// beginning.
func entries(dir *os.File, most int) ([]string, error) {
	fd := int(dir.Fd())
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return nil, err
	}
	buf := make([]byte, 8<<10)
	var names []string
	for len(names) < most {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	return names, nil
}

// list returns up to maxProcs names of a directory of the sandbox's /proc.
func (in *inside) list(name string) ([]string, error) {
	d, err := in.open(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return entries(d, maxProcs)
}

// looks is how often a process is looked at whose threads end while it is.
const looks = 16

// task looks at a process, false if it is gone. One whose first thread has ended
// looks dead, but lives on in the others; these may replace one another faster
// than they can be read, so it is dead only if the kernel counts no others.
func (in *inside) task(pid int) (task, bool) {
	t := task{pid: pid, dir: strconv.Itoa(pid)}
	var ending task
	for range looks {
		if !in.status(&t) {
			return task{}, false
		}
		if t.threads <= 1 || !t.dead && !t.empty {
			return t, true
		}
		switch live, ok := in.thread(pid); {
		case ok && !live.empty:
			return live, true
		case ok:
			ending = live
		}
	}
	if ending.pid != 0 {
		return ending, true // its memory is being let go
	}
	t.dead, t.hidden = false, true
	return t, true
}

// thread looks at a living thread of a process, the newest that has memory if
// one has; false if none was met.
func (in *inside) thread(pid int) (live task, ok bool) {
	dir := strconv.Itoa(pid) + "/task"
	names, err := in.list(dir)
	if err != nil {
		return task{}, false
	}
	for _, name := range slices.Backward(names) {
		t := task{pid: pid, dir: dir + "/" + name}
		if name[0] == '.' || !in.status(&t) || t.dead {
			continue
		}
		if live, ok = t, true; !t.empty {
			break
		}
	}
	return live, ok
}

// status reads t.dir's status; false if there is none.
func (in *inside) status(t *task) bool {
	text, err := in.read(t.dir+"/status", maxStatus)
	if err != nil {
		return false
	}
	state := after(text, "\nState:")
	t.dead = len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
	t.empty = !bytes.Contains(text, []byte("\nVmPeak:"))
	t.threads = count(text, "\nThreads:")
	t.parent = int(count(text, "\nPPid:"))
	t.tables = count(text, "\nVmPTE:") << 10
	// However few there are, the table has room for the highest.
	t.kept = t.tables + count(text, "\nFDSize:")*uint64(unsafe.Sizeof(uintptr(0)))
	t.private = (count(text, "\nRssAnon:")+count(text, "\nVmSwap:"))<<10 + t.kept
	t.shared = count(text, "\nRssShmem:") << 10
	return true
}

// after returns what follows label in text, less white space.
func after(text []byte, label string) []byte {
	_, rest, _ := bytes.Cut(text, []byte(label))
	return bytes.TrimLeft(rest, " \t")
}

// count returns the number that follows label in text, 0 if there is none.
func count(text []byte, label string) uint64 {
	n := uint64(0)
	for _, c := range after(text, label) {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// open opens a file of the sandbox's /proc.
func (in *inside) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(in.proc.Fd()), name, flags|unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// read returns a file of the sandbox's /proc, or its first most bytes.
func (in *inside) read(name string, most int) ([]byte, error) {
	f, err := in.open(name, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, 0, min(most, 4<<10))
	for len(buf) < most {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := unix.Read(int(f.Fd()), buf[len(buf):min(cap(buf), most)])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}
