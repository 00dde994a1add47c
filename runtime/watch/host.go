package watch

import (
	"bytes"
	"errors"
	"fmt"
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
// lives. One that does not tell is an error; when it no longer does, the host is
// short.
func OpenHost(meminfo, fileNr string) (*Host, error) {
	h := &Host{}
	var err error
	if h.meminfo, err = openFile(meminfo, unix.O_RDONLY|unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if h.fileNr, err = openFile(fileNr, unix.O_RDONLY|unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(err, h.meminfo.Close())
	}
	if _, ok := h.memory(); !ok {
		err = fmt.Errorf("%s does not tell how much memory is available", meminfo)
	} else if _, _, ok := h.files(); !ok {
		err = fmt.Errorf("%s does not tell how many files are open", fileNr)
	}
	if err != nil {
		return nil, errors.Join(err, h.meminfo.Close(), h.fileNr.Close())
	}
	return h, nil
}

// files returns how many are open, and how many all of the host may have open
// (proc_sys_fs(5)); false if it cannot be told.
func (h *Host) files() (open, most uint64, ok bool) {
	buf := make([]byte, 256)
	n, _ := h.fileNr.ReadAt(buf, 0) // it ends before the buffer does
	f := bytes.Fields(buf[:n])
	if len(f) != 3 {
		return 0, 0, false
	}
	return count(f[0], ""), count(f[2], ""), true
}

// manyFiles says whether more than half of the files are open that may be.
func (h *Host) manyFiles() bool {
	open, most, ok := h.files()
	return !ok || open > most/2
}

// memory returns what proc_meminfo(5) says; false if not how much is available.
func (h *Host) memory() ([]byte, bool) {
	buf := make([]byte, 4<<10)
	n, _ := h.meminfo.ReadAt(buf, 0) // it ends before the buffer does
	return buf[:n], bytes.Contains(buf[:n], []byte("\nMemAvailable:"))
}

// left returns how much memory there is beyond what the host needs itself.
func (h *Host) left() uint64 {
	text, _ := h.memory()
	return leftOf(text)
}

// leftOf is left by the text of proc_meminfo(5); nothing if that does not tell. A
// host needs a sixteenth, but no more than 1 GiB.
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
