package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/pydriver"
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

	kill(t, s.importer())
	await(t, "the template is replaced", func() bool {
		a, err := s.call(map[string]any{"code": look, "conversation": "new"})
		return err == nil && a.Stdout == "True 1\n"
	})
	if diff := cmp.Diff(want, s.status().NotLoaded); diff != "" {
		t.Errorf("not loaded, once it is replaced (-want +got):\n%s", diff)
	}

	i.install("good", "VERSION = 2\n")
	i.install("another", "")
	if out := s.run(look).Stdout; !strings.HasSuffix(out, " 2\n") {
		t.Errorf("after the image has changed: %q, want its present version", out)
	}
	await(t, "the present version is imported in advance", func() bool { return s.run(look).Stdout == "True 2\n" })
}

// importer returns the process that has modules imported: the template's child.
func (s *server) importer() int {
	s.t.Helper()
	isTemplate := func(pid int) bool {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && strings.HasSuffix(string(command), "\x00"+pydriver.TemplateArgument+"\x00")
	}
	shim := s.shim()
	for _, p := range descendants(shim) {
		if p.parent != shim && isTemplate(p.pid) && isTemplate(p.parent) {
			return p.pid
		}
	}
	s.t.Fatal("the server has no template with modules")
	return 0
}

// TestNothingAhead: when nothing can be imported in advance, sandboxes are kept as
// they are.
func TestNothingAhead(t *testing.T) {
	i := newImage(t)
	if err := os.Chmod(i.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	i.install("ends", "import os; os._exit(1)\n")
	s := launch(t, i.wrapper(), "[sandbox]\npreload = [\"ends\", \"ends\", \"no_such_module\"]\n")
	s.warns = true // of the modules
	s.connect("")
	await(t, "it is known", func() bool { return len(s.status().NotLoaded) == 2 })
	if got := s.status(); len(got.Loaded) != 0 || got.NotLoaded["ends"] == "" || got.NotLoaded["no_such_module"] == "" {
		t.Errorf("loaded %v, not loaded %v", got.Loaded, got.NotLoaded)
	}
	// Its namespace tells one sandbox from another.
	const which = `import os; print(os.stat("/proc/self/ns/pid").st_ino)`
	s.run(which) // what was started early is replaced after a call
	s.run(which)
	first := s.run(which).Stdout
	for range 5 {
		if got := s.run(which).Stdout; got != first {
			t.Fatalf("a call ran in another sandbox than the one before: %q, want %q", got, first)
		}
	}
}
