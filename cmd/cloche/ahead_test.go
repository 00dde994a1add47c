package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/rootfs"
)

// An image is the host's with a folder of Python modules of a test's own.
type image struct {
	t      *testing.T
	folder string // what the server sees at place
	place  string
}

// newImage returns an image, for servers of launch with its wrapper.
func newImage(t *testing.T) *image {
	t.Helper()
	need.Root(t)
	need.Programs(t, "unshare", "mount")
	need.Python(t)
	const ask = "import sys; print(*[p for p in sys.path if p.startswith('/usr/local/lib/')])"
	place, err := exec.CommandContext(t.Context(), rootfs.Python, "-c", ask).Output()
	if err != nil || len(strings.Fields(string(place))) != 1 {
		need.Unmet(t, "Python has no folder of local packages")
	}
	return &image{t, t.TempDir(), strings.TrimSpace(string(place))}
}

// wrapper is a program that shows the folder at its place to what it becomes, and
// to nobody else.
func (i *image) wrapper() []string {
	const script = `mount --bind "$0" "$1" && shift && exec "$@"`
	return []string{"unshare", "--mount", "--propagation=private", "sh", "-c", script, i.folder, i.place}
}

// install puts a module into the image, as one installs a package: all at once.
func (i *image) install(name, text string) {
	i.t.Helper()
	file := filepath.Join(i.folder, name+".py")
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		i.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		i.t.Fatal(err)
	}
}

// TestImportsAhead: a module that cannot be imported in advance keeps nothing from
// being served, and sandbox_status says what is the matter; when the image has
// changed the next call sees what is there now.
func TestImportsAhead(t *testing.T) {
	i := newImage(t)
	if err := os.Chmod(i.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	i.install("good", "VERSION = 1\n")
	i.install("ends", "import os; os._exit(1)\n")
	i.install("threads", "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\n")
	i.install("raises", "raise ValueError('not here')\n")
	s := launch(t, i.wrapper(), "[sandbox]\npreload = [\"ends\", \"good\", \"raises\", \"threads\"]\n")
	s.warns = true // of modules that are left out
	s.connect("")
	s.works() // nothing waits for imports
	ready := func() bool { return len(s.status().Loaded) > 0 }
	await(t, "modules are imported", ready)
	got := s.status()
	if diff := cmp.Diff([]string{"good"}, got.Loaded); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"ends": "its import ends the process", "threads": "it starts a thread", "raises": "ValueError('not here')",
	}
	if diff := cmp.Diff(want, got.NotLoaded); diff != "" {
		t.Errorf("not loaded (-want +got):\n%s", diff)
	}
	const look = `import sys; print("good" in sys.modules, end=" "); import good; print(good.VERSION)`
	s.run("1") // what was started early is replaced after a call
	await(t, "calls have the module", func() bool { return s.run(look).Stdout == "True 1\n" })

	i.install("good", "VERSION = 2\n")
	i.install("another", "")
	if out := s.run(look).Stdout; !strings.HasSuffix(out, " 2\n") {
		t.Errorf("after the image has changed: %q, want its present version", out)
	}
	await(t, "the present version is imported in advance", func() bool { return s.run(look).Stdout == "True 2\n" })
}
