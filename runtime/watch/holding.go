package watch

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

// manySockets is from how many on they are more than programs use, and what is
// in them is worth having: each holds some 200 kB, or more where the host lets it.
const manySockets = 256

// manyMappings is the same of mappings, each of which costs the kernel some 250
// bytes.
const manyMappings = 100_000

// manyNotes is the same of locks and watches, which fdinfo notes one a line.
const manyNotes = 100_000

// manyReports is the same of descriptors of /proc. Each keeps what was read, which
// may be megabytes: fdinfo of one that watches all others.
const manyReports = 64

// A holding is what a sandbox's processes have: their folders below /proc, and
// the files that they hold.
type holding struct {
	dirs  []string
	files *files
	// secret: there is one that this process may not look into, as whose program may
	// be run but not be read (ptrace(2)).
	secret bool
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
			h.secret = secret(h.files.add(t.dir+"/fd")) || h.secret
			h.dirs = append(h.dirs, t.dir)
		}
	}
	return h, nil
}

// secret says whether err is that a process may not be looked into.
func secret(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// inSockets says whether there are many sockets, or descriptors on their way
// through one, or more descriptors than can be looked at.
func (h holding) inSockets(in *inside) bool {
	if h.secret || h.files.left == 0 || in.sockets(len(h.files.sockets)) >= manySockets {
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

// sockets returns how many there are in the sandbox's network namespace, or else
// as many as descriptors were met. No descriptor tells of those that wait to be
// accepted: who has sent to them may have hung up.
func (in *inside) sockets(met int) int {
	text, err := in.read("1/net/protocols", maxStatus)
	if err != nil {
		return met
	}
	n := 0
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) > 2 { // the first line is titles
			n += int(count(f[2], ""))
		}
	}
	return n
}

// inNotes says whether there are very many locks or watches, or many descriptors
// by which such were read.
func (h holding) inNotes(in *inside) bool {
	if h.files.proc >= manyReports {
		return true
	}
	notes := 0
	for _, dir := range h.dirs {
		names, err := in.list(dir + "/fdinfo")
		if err != nil {
			continue // it is gone
		}
		for _, name := range names {
			text, err := in.read(dir+"/fdinfo/"+name, maxMaps)
			if err != nil {
				continue
			}
			for _, label := range []string{"\nlock:", "\ntfd:", "\ninotify wd:"} {
				notes += bytes.Count(text, []byte(label))
			}
			if notes >= manyNotes {
				return true
			}
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
