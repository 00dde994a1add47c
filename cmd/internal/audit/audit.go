// Package audit tries to break out of a sandbox. What it tries is data: each
// probe is a file of Python code, whose head says what it is about and how it
// has to end. A probe is run the way an agent's code is, as a call of a real
// server, and reports each of its attempts on a line of its own:
//
//	PROBE A4 blocked mount: EPERM
//
// An attempt that gets past a wall is OPEN, also where another wall behind that
// one held. A probe never does harm where a wall is missing: it opens for
// writing and writes nothing, asks for what there is not, or stops by itself.
package audit

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed probes/*.py
var files embed.FS

// preludeFile is what all probes have in common.
const preludeFile = "prelude.py"

// A Probe is one of the files.
type Probe struct {
	// Name is that of the file, "C2_mmap"; ID is what it belongs to, "C2".
	Name, ID string
	Title    string
	// Attempts are the names of what it tries. Each is to be reported once; one
	// that is not reported is judged by how the code ended, if that is not "exit 0".
	Attempts []string
	// Limit is how long its code may run.
	Limit time.Duration
	// Ends are the ways in which it has to end, one of them: "exit 0", "timeout",
	// "out of memory", "signal 9".
	Ends []string
	// Shows is text that has to come out on stdout as it is; "" is none.
	Shows string
	// Output says how many bytes the answer has to say that a stream had.
	Output map[string]int64
	// Load: another conversation has to be answered meanwhile. It runs Meanwhile,
	// which prints 42.
	Load      bool
	Meanwhile string
	// Outside: it is harmless also as root of a host, outside of any sandbox.
	Outside bool
	// Code is the Python source.
	Code string
}

// plainly is the code of the other conversation, if a probe does not say.
const plainly = "print(6*7)"

// defaultLimit is for a slow machine.
const defaultLimit = time.Minute

// Probes returns all probes, in the order of their ids. An error says that one
// of them is not written as it should be.
func Probes() ([]Probe, error) {
	entries, err := fs.ReadDir(files, "probes")
	if err != nil {
		return nil, err
	}
	var all []Probe
	for _, e := range entries {
		if e.Name() == preludeFile {
			continue
		}
		text, err := files.ReadFile(path.Join("probes", e.Name()))
		if err != nil {
			return nil, err
		}
		p, err := parse(strings.TrimSuffix(e.Name(), ".py"), string(text))
		if err != nil {
			return nil, fmt.Errorf("probe %s: %w", e.Name(), err)
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b Probe) int { return compare(a.ID, b.ID) })
	seen := map[string]string{}
	for _, p := range all {
		for _, a := range p.Attempts {
			if other, ok := seen[p.ID+" "+a]; ok {
				return nil, fmt.Errorf("probe %s: attempt %q is also in %s", p.Name, a, other)
			}
			seen[p.ID+" "+a] = p.Name
		}
	}
	return all, nil
}

// compare orders ids by their letter and then by their number.
func compare(a, b string) int {
	if a[0] != b[0] {
		return int(a[0]) - int(b[0])
	}
	return number(a) - number(b)
}

// number returns that of an id which parse has taken.
func number(id string) int {
	n, _ := strconv.Atoi(id[1:])
	return n
}

// Source returns the code of p with all that it needs. It may be run by any
// Python.
func (p Probe) Source(l Limits) (string, error) {
	prelude, err := files.ReadFile(path.Join("probes", preludeFile))
	if err != nil {
		return "", err
	}
	cpus := "None"
	if l.CPUs > 0 {
		cpus = strconv.FormatFloat(l.CPUs, 'f', -1, 64)
	}
	kernel := "False"
	if l.Kernel {
		kernel = "True"
	}
	head := fmt.Sprintf("ID = %q\nLIMITS = {\"memory\": %d, \"pids\": %d, \"cpus\": %s, \"kernel\": %s}\n", p.ID, l.MemoryBytes, l.PIDs, cpus, kernel)
	return head + string(prelude) + "\n\n" + p.Code, nil
}
