package watch

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A Host tells how much memory is left on it, and whether it is short of files.
type Host struct {
	meminfo *os.File
	fileNr  *os.File
}

// OpenHost opens what tells of this host's memory and open files: files like
// /proc/meminfo and /proc/sys/fs/file-nr. They are open as long as the process
// lives.
func OpenHost(meminfo, fileNr string) (*Host, error) {
	h := &Host{}
	var err error
	if h.meminfo, err = openFile(meminfo, unix.O_RDONLY|unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if h.fileNr, err = openFile(fileNr, unix.O_RDONLY|unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(err, h.meminfo.Close())
	}
	return h, nil
}

// manyFiles says whether more than half of the files are open that all of the
// host may have open (proc_sys_fs(5)).
func (h *Host) manyFiles() bool {
	buf := make([]byte, 256)
	n, _ := h.fileNr.ReadAt(buf, 0) // it ends before the buffer does
	f := bytes.Fields(buf[:n])
	if len(f) != 3 {
		return false
	}
	return count(f[0], "") > count(f[2], "")/2
}

// left returns how much memory there is beyond what the host needs itself.
func (h *Host) left() uint64 {
	buf := make([]byte, 4<<10)
	n, _ := h.meminfo.ReadAt(buf, 0) // it ends before the buffer does
	return leftOf(buf[:n])
}

// leftOf is left by the text of proc_meminfo(5). A host needs a sixteenth, but
// no more than 1 GiB.
func leftOf(meminfo []byte) uint64 {
	const most = 1 << 30
	total, available := count(meminfo, "MemTotal:")<<10, count(meminfo, "\nMemAvailable:")<<10
	return available - min(available, total/16, most)
}

// processors is how many the host has. Code may use those that this process
// keeps from, too.
var processors = sync.OnceValue(func() int {
	text, err := os.ReadFile("/proc/stat") //nolint:forbidigo // the kernel's
	n := 0
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("cpu")); ok && rest[0] != ' ' { // not their sum
			n++
		}
	}
	if err != nil {
		n = 0
	}
	return max(n, runtime.NumCPU())
})

// manySockets is from how many on they are more than programs use, and what is
// in them is worth having: each holds some 200 kB, or more where the host lets it.
const manySockets = 256

// manyMappings is the same of mappings, each of which costs the kernel some 250
// bytes.
const manyMappings = 100_000

// A holding is what a sandbox's processes have: their folders below /proc, and
// the files that they hold.
type holding struct {
	dirs  []string
	files *files
}

// held looks at every process but the first.
func (in *inside) held() (holding, error) {
	pids, err := in.pids()
	if err != nil {
		return holding{}, err
	}
	h := holding{files: in.newFiles(^uint64(0))}
	h.files.brief = true
	for _, pid := range pids {
		if t, ok := in.task(pid); ok && !t.dead && pid != 1 {
			h.files.add(t.dir + "/fd")
			h.dirs = append(h.dirs, t.dir)
		}
	}
	return h, nil
}

// inSockets says whether there are many sockets, or descriptors on their way
// through one, or more descriptors than can be looked at.
func (h holding) inSockets(in *inside) bool {
	if len(h.files.sockets) >= manySockets || h.files.left == 0 {
		return true
	}
	for _, name := range h.files.sockets {
		text, err := in.read(name, maxStatus)
		if err == nil && count(text, "\nscm_fds:") > 0 {
			return true
		}
	}
	return false
}

// inMappings says whether there are very many mappings, or one of a memory file
// that is counted nowhere.
func (h holding) inMappings(in *inside) bool {
	mappings := 0
	for _, dir := range h.dirs {
		n, unknown := in.mappings(dir, h.files.seen)
		if mappings += n; unknown || mappings >= manyMappings {
			return true
		}
	}
	return false
}

// mappings returns how many mappings a process has, and whether one is of a
// memory file that is neither of System V nor among known.
func (in *inside) mappings(dir string, known map[uint64]bool) (n int, unknown bool) {
	text, err := in.read(dir+"/maps", maxMaps)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if m, ok := mapped(line); ok && m.uncounted(in.memory, known) {
			return n, true
		}
		n++
	}
	return n, len(text) == maxMaps
}
