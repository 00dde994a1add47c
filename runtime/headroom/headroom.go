// Package headroom tells how much memory is left for this server and what it
// starts: of the host, and of the control groups that the server is in.
package headroom

import (
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is what there is and what is left, in bytes; 0 if unknown.
type Memory struct {
	Total, Available int64
}

// A Reader reads it. It may be used from several goroutines.
type Reader struct {
	meminfo string
	groups  []group

	mu  sync.Mutex
	buf []byte // mu
}

// A group is a control group with a limit of its own, or above one.
// These are its files.
type group struct{ limit, used, stat string }

// New returns a Reader of this host.
func New() *Reader {
	own, err := os.ReadFile("/proc/self/cgroup") //nolint:forbidigo // the kernel's
	if err != nil {
		own = nil // without control groups there is none
	}
	return at("/proc/meminfo", "/sys/fs/cgroup", string(own))
}

// at is New for a host with these files; own is what /proc/self/cgroup says.
func at(meminfo, root, own string) *Reader {
	r := &Reader{meminfo: meminfo, buf: make([]byte, 16<<10)}
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch f[1] {
		case "":
			r.add(root, f[2], "memory.max", "memory.current")
		case "memory":
			r.add(filepath.Join(root, "memory"), f[2], "memory.limit_in_bytes", "memory.usage_in_bytes")
		}
	}
	return r
}

// add adds the groups from that at name up to the root. Within a container name
// may be one that the host has for it, and be found nowhere.
func (r *Reader) add(root, name, limit, used string) {
	for p := path.Clean("/" + name); ; p = path.Dir(p) {
		dir := filepath.Join(root, p)
		if unix.Access(filepath.Join(dir, limit), unix.R_OK) == nil {
			r.groups = append(r.groups, group{filepath.Join(dir, limit), filepath.Join(dir, used), filepath.Join(dir, "memory.stat")})
		}
		if p == "/" {
			return
		}
	}
}

// Read returns the memory of this moment: that of the host or, if less is left
// there, of the narrowest group.
func (r *Reader) Read() Memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.read(r.meminfo)
	m := Memory{Total: field(text, "MemTotal:") << 10, Available: field(text, "MemAvailable:") << 10}
	host := m.Total
	for _, g := range r.groups {
		limit, ok := number(r.read(g.limit))
		if !ok || limit >= host && host > 0 {
			continue // it is none
		}
		used, _ := number(r.read(g.used))
		// What the kernel keeps of files it can drop, as it can on the host.
		stat := r.read(g.stat)
		files := max(field(stat, "total_inactive_file"), field(stat, "inactive_file")) + max(field(stat, "total_active_file"), field(stat, "active_file"))
		left := max(limit-max(used-files, 0), 0)
		if m.Total == 0 {
			m = Memory{limit, left}
		}
		m = Memory{min(m.Total, limit), min(m.Available, left)}
	}
	return m
}

// read returns what a file of the kernel holds, nothing if it cannot be read.
// Preconditions: r.mu is held. What it returns is good until the next read.
func (r *Reader) read(name string) []byte {
	f, err := os.Open(name) //nolint:forbidigo // the kernel's
	if err != nil {
		return nil
	}
	defer f.Close()
	n, err := io.ReadFull(f, r.buf)
	if err != nil && n == 0 {
		return nil
	}
	return r.buf[:n]
}

// number reads a file that holds nothing else; false for what is none.
func number(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil && n >= 0
}

// field returns the number after a name that begins a line, 0 if there is none.
func field(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) >= 2 && string(f[0]) == name {
			n, _ := number(f[1])
			return n
		}
	}
	return 0
}
