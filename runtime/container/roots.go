package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
)

// roots are the root filesystems that sandboxes start from. Each is made at its
// first use, and anew when its image has changed; the one before is then removed
// as soon as nothing starts from it. Sandboxes that have started keep their own.
type roots struct {
	dir   string // of the runner
	files []rootfs.File

	mu    sync.Mutex
	made  int              // mu
	named map[string]*root // the present ones, by what they are made of; mu
}

// A root is a root filesystem.
type root struct {
	dir string

	state string
	users int  // of roots.mu
	old   bool // of roots.mu
}

// take returns the root filesystem for spec, and the one that it replaces if it
// has just done so. Release is to be called once nothing starts from it.
func (r *roots) take(spec sandbox.Spec) (now, old *root, release func(), err error) {
	if spec.Image != "host" {
		return nil, nil, nil, fault.New(fault.NotFound, "no image %q; the one there is, is \"host\"", spec.Image)
	}
	name := spec.Image + "\x00" + strings.Join(spec.Hide, "\x00")
	state := rootfs.HostState()
	r.mu.Lock()
	defer r.mu.Unlock()
	now = r.named[name]
	if now == nil || now.state != state {
		old = now
		if now, err = r.make(spec, state); err != nil {
			return nil, nil, nil, err
		}
		r.named[name] = now
		if old != nil {
			old.old = true
			r.removeOld(old)
		}
	}
	now.users++
	release = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		now.users--
		r.removeOld(now)
	}
	return now, old, release, nil
}

// make makes a root filesystem. After an error nothing is mounted.
// Preconditions: r.mu is held.
func (r *roots) make(spec sandbox.Spec, state string) (*root, error) {
	r.made++
	dir := filepath.Join(r.dir, fmt.Sprintf("root%d", r.made))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := rootfs.Host(dir, rootfs.Options{Hide: spec.Hide, Files: r.files}); err != nil {
		return nil, errors.Join(err, remove(dir))
	}
	return &root{dir: dir, state: state}, nil
}

// replaced says whether there is a newer one in its place.
func (r *roots) replaced(now *root) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.old
}

// removeOld removes a root that was replaced, if nothing starts from it.
// Preconditions: r.mu is held.
func (r *roots) removeOld(old *root) {
	if old.old && old.users == 0 {
		_ = remove(old.dir) // what is left of it ends with this process
	}
}

func remove(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("take a root filesystem off: %w", err)
	}
	return os.Remove(dir)
}
