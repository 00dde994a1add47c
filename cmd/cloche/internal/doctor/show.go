package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/rootfs"
)

// Bounds of the look at /usr.
const (
	maxDepth  = 3 // folders below /usr, unless skeleton or packages of Python
	maxNames  = 50_000
	maxListed = 8
	maxInner  = 20_000 // names looked at within what no package brought
)

// skeleton are folders of /usr that no package lists and every host has; what is
// in them counts. Patterns as of path.Match, from /usr.
var skeleton = []string{
	"local", "local/bin", "local/games", "local/include", "local/lib", "local/libexec", "local/share",
	"local/lib/python3*", "local/lib/python3*/dist-packages", "local/lib/python3*/site-packages",
}

// generated are what packages make of what they bring when they are installed.
var generated = []string{
	"share/mime/*", "share/info/dir", "share/applications/mimeinfo.cache", "lib/locale/*", "lib/udev/hwdb.bin", "local/man", "local/share/man",
}

// linked are where links lead that packages make when they are installed.
var linked = []string{"/etc/alternatives/", "/etc/dictionaries-common/"}

// A look at /usr.
type look struct {
	usr    string
	owned  map[string]bool // what packages brought, from /usr
	hidden []string        // patterns of what sandboxes do not see
	names  int             // looked at
	inner  int             // looked at within what was found
	found  []string
	keys   []string // of found or within it, those that look like keys
}

// shows tells what a sandbox sees of the host's /usr beyond the distribution's
// packages, less what the patterns in hide leave out.
func (h *Host) shows(hide []string) Finding {
	const name = "host image"
	l := &look{usr: h.path("usr"), hidden: append(rootfs.HiddenByDefault(), hide...)}
	where, note := "/usr", ""
	if owned, ok := h.packaged(); ok {
		l.owned = owned
		l.walk("", 1)
	} else {
		where, note = "/usr/local", " (there is no database of dpkg, so no other part of /usr was looked at)"
		l.walk("local", 2)
	}
	if l.names > maxNames {
		note += fmt.Sprintf(" (the look ended after %s names)", human.Count(maxNames))
	}
	if len(l.found) == 0 {
		return good(name, "sandboxes see nothing below "+where+" that no package brought"+note)
	}
	detail := fmt.Sprintf("sandboxes see %s below %s that no package brought", human.Plural(int64(len(l.found)), "thing"), where)
	if len(l.keys) > 0 {
		return h.exposed(name, detail+note, l.keys)
	}
	return good(name, detail+": "+listed(l.found)+note+"; sandbox.host.hide leaves out what they should not")
}

// listed names the first of names, so that none does anything to a terminal.
func listed(names []string) string {
	var first []string
	for _, n := range names[:min(maxListed, len(names))] {
		if strings.ContainsFunc(n, func(r rune) bool { return !unicode.IsPrint(r) }) {
			n = strconv.QuoteToASCII(n)
		}
		first = append(first, n)
	}
	text := strings.Join(first, ", ")
	if len(names) > maxListed {
		text += ", …"
	}
	return text
}

// walk looks at what is in the folder rel, whose depth below /usr is one less
// than depth.
func (l *look) walk(rel string, depth int) {
	entries, err := os.ReadDir(filepath.Join(l.usr, rel))
	if err != nil {
		return // who may not read it sees nothing of it either
	}
	for _, e := range entries {
		name := path.Join(rel, e.Name())
		if l.names++; l.names > maxNames {
			return
		}
		switch {
		case e.Name() == "__pycache__" || matches(generated, name) || matches(l.hidden, name):
		case strings.HasPrefix(name, "local/") && rootfs.KeyLike(e.Name()): // covered
		case matches(skeleton, name):
			l.walk(name, depth+1)
		case l.owned[name]:
			if e.IsDir() && (depth < maxDepth || matches([]string{"lib/python3*/dist-packages"}, name)) {
				l.walk(name, depth+1)
			}
		default:
			l.foreign(name, e)
		}
	}
}

// foreign notes a thing that no package brought, unless there is nothing to it.
func (l *look) foreign(name string, e fs.DirEntry) {
	if e.Type()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(filepath.Join(l.usr, name))
		if err != nil || slices.ContainsFunc(linked, func(p string) bool { return strings.HasPrefix(target, p) }) {
			return
		}
	}
	files, covered := false, strings.HasPrefix(name, "local/")
	_ = filepath.WalkDir(filepath.Join(l.usr, name), func(p string, d fs.DirEntry, err error) error {
		if l.inner++; l.inner > maxInner {
			files = true // there may be
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir
		}
		files = files || !d.IsDir()
		rel, err := filepath.Rel(l.usr, p)
		if err == nil && isKey(p, d, rel == name, covered) && !matches(l.hidden, rel) {
			l.keys = append(l.keys, rel)
		}
		if files && covered {
			return fs.SkipAll // keys within it, no sandbox sees
		}
		return nil
	})
	if files {
		l.found = append(l.found, name)
	}
}

// matches says whether one of patterns matches name.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
