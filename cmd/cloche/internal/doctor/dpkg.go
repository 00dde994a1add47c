package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// packaged returns what the packages of this host brought below /usr, by its path
// from there, as deep as it is looked at; false if there is no database of dpkg.
func (h *Host) packaged() (map[string]bool, bool) {
	lists, err := filepath.Glob(h.path("var/lib/dpkg/info/*.list"))
	if err != nil || len(lists) == 0 {
		return nil, false
	}
	o := owned{names: map[string]bool{}}
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		// Where /bin is a link, packages may list a file of /usr/bin below either.
		if fi, err := os.Lstat(h.path(name)); err == nil && fi.Mode()&os.ModeSymlink != 0 {
			o.merged = append(o.merged, []byte("/"+name))
		}
	}
	for _, file := range lists {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // what it lists looks as if nobody had brought it
		}
		for line := range bytes.Lines(text) {
			o.add(bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	// Three lines each: a name, the name that it got instead, who asked for that.
	diverted := strings.Split(h.read("var/lib/dpkg/diversions"), "\n")
	for i := 1; i < len(diverted); i += 3 {
		o.add([]byte(diverted[i]))
	}
	return o.names, true
}

// owned collects names.
type owned struct {
	names  map[string]bool
	merged [][]byte
}

// add adds the absolute name of a file or folder, if it is below /usr and not too
// deep.
func (o *owned) add(name []byte) {
	rel, ok := bytes.CutPrefix(name, []byte("/usr/"))
	if !ok {
		for _, m := range o.merged {
			if bytes.HasPrefix(name, m) && (len(name) == len(m) || name[len(m)] == '/') {
				rel, ok = name[1:], true
			}
		}
	}
	if ok && bytes.Count(rel, []byte("/")) <= maxDepth { // packages of Python are one deeper
		o.names[string(rel)] = true
	}
}
