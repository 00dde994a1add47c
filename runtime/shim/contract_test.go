package shim

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

func TestRunner(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		if os.Getuid() == 0 {
			need.Cgroup(t)
			if setup, err := newRunner(t).Limited(t.Context()); err != nil || !setup.Limits.All() {
				t.Fatalf("limits = %+v, %v, want all of them by control groups", setup, err)
			}
		}
		sandboxtest.Test(t, func(t *testing.T) sandbox.Runner { return newRunner(t) })
	})
}

// TestWithoutTemplates: a host may not let a sandbox be forked from one.
func TestWithoutTemplates(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		r := newRunner(t)
		r.o.cold = true
		sandboxtest.TestStart(t, coldRunner{r})
		if err := r.Preloaded(t.Context(), sandboxtest.Spec()); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Preloaded = %v, want unavailable", err)
		}
	})
}

// A coldRunner imports nothing in advance.
type coldRunner struct{ sandbox.Runner }

// TestLimitsWithoutGroups: root, too, may have none.
func TestLimitsWithoutGroups(t *testing.T) {
	need.Root(t)
	r := newRunner(t)
	r.o.ungrouped = true
	sandboxtest.TestLimits(t, r)
}

// TestWhateverTheServerIs: what a server has set for itself is nothing to its
// sandboxes.
func TestWhateverTheServerIs(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Shim(t)
		defer syscall.Umask(syscall.Umask(0o077))
		var files unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: files.Max}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files) }()
		if _, err := unix.FcntlInt(os.Stderr.Fd(), unix.F_DUPFD, 200); err != nil { // and not close-on-exec
			t.Fatal(err)
		}
		defer unix.Close(200)
		b := sandboxtest.Start(t, newRunner(t), sandboxtest.Spec())
		got := b.Print(`
import os, resource, signal
print("%o" % os.umask(0), resource.getrlimit(resource.RLIMIT_NOFILE)[0], signal.getsignal(signal.SIGHUP).name, os.path.exists("/proc/self/fd/200"))
`)
		if want := "22 1024 SIG_DFL False\n"; got != want {
			t.Errorf("umask, files, SIGHUP, descriptor 200 = %q, want %q", got, want)
		}
	})
}
