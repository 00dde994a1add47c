package watch

import (
	"bytes"
	"os"
	"strconv"
)

// An estimate spares exact sums, which cost: what a sandbox holds is at most
// what it held at the last one and what came since. Every page that came was
// seen by its process, which then maps more, or by the kernel, which counts a
// fault for each page that it copies (and for many that come to nothing).
type estimate struct {
	held  uint64       // at the last exact sum; 0 if there was none
	known uint64       // shared memory, a part of held
	marks map[int]mark // by process
}

// A mark is how far a process has come.
type mark struct {
	started uint64 // tells processes of one id apart; 0 if it could not be read
	faults  uint64
	mapped  uint64
}

// marks reads those of tasks.
func (in *inside) marks(tasks []task) map[int]mark {
	all := make(map[int]mark, len(tasks))
	for _, t := range tasks {
		m := mark{mapped: t.private + t.shared}
		if t.dir == strconv.Itoa(t.pid) { // one thread's faults are not those of all
			if text, err := in.read(t.dir+"/stat", maxStatus); err == nil {
				m.started, m.faults = progress(text)
			}
		}
		all[t.pid] = m
	}
	return all
}

// progress returns when a process was started, and its faults, by the text of
// proc_pid_stat(5). The name in it may hold anything.
func progress(stat []byte) (started, faults uint64) {
	const minor, major, start = 7, 9, 19 // behind the name
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= start {
		return 0, 0
	}
	return count(f[start], ""), count(f[minor], "") + count(f[major], "")
}

// most returns what can be held at most, by marks and known shared memory of
// now; false if that cannot be told.
func (e estimate) most(now map[int]mark, known uint64) (uint64, bool) {
	if e.held == 0 {
		return 0, false
	}
	sum := e.held + known - min(known, e.known)
	for pid, m := range now {
		then := e.marks[pid]
		if m.started == 0 || m.started != then.started {
			then = mark{faults: m.faults}
		}
		sum += m.mapped - min(m.mapped, then.mapped)
		sum += (m.faults - min(m.faults, then.faults)) * uint64(os.Getpagesize())
		sum += 2 * inexact() // of both
	}
	return sum, true
}
