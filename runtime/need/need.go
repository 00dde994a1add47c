// Package need is for tests that need something of the machine: a user, a
// kernel feature, a program. What is not there skips the test, with a reason;
// with CI=true it fails it, for a test that is skipped in silence is a hole.
package need

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// python is the interpreter of sandboxes.
const python = "/usr/bin/python3"

// Unmet ends the test: something that it needs, which reason names, is not there.
func Unmet(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

// Root is for tests that only root can run.
func Root(tb testing.TB) {
	tb.Helper()
	if os.Getuid() != 0 {
		Unmet(tb, "this test needs root")
	}
}

// longVariable has the tests that take long run, too: what Long says.
const longVariable = "CLOCHE_LONG"

// Long is for tests that take too long for every change. Nothing is missing
// where it skips them, so CI=true does not make that a failure.
func Long(tb testing.TB) {
	tb.Helper()
	if !LongTests() {
		tb.Skip("this test takes long; " + longVariable + "=true runs it, as .ci/full does")
	}
}

// LongTests says whether tests are to take as long as they need.
func LongTests() bool { return os.Getenv(longVariable) != "" }

// Namespaces is for tests that make user, mount and pid namespaces as the user
// that they run as.
func Namespaces(tb testing.TB) {
	tb.Helper()
	if err := namespaces(); err != nil {
		Unmet(tb, fmt.Sprintf("user %d may not make namespaces: %v", os.Getuid(), err))
	}
}

var namespaces = sync.OnceValue(func() error {
	cmd := exec.CommandContext(context.Background(), "/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd.Run()
})

// Python is for tests that run code.
func Python(tb testing.TB) {
	tb.Helper()
	if err := unix.Access(python, unix.X_OK); err != nil {
		Unmet(tb, fmt.Sprintf("%s cannot be run: %v", python, err))
	}
}

// Files is for tests of what distributions have at those places.
func Files(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		if err := unix.Access(name, unix.F_OK); err != nil {
			Unmet(tb, fmt.Sprintf("this host has no %s: %v", name, err))
		}
	}
}

// Programs is for tests whose code runs programs that sandboxes see: those of
// /usr/bin.
func Programs(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		if err := unix.Access(filepath.Join("/usr/bin", name), unix.X_OK); err != nil {
			Unmet(tb, fmt.Sprintf("/usr/bin/%s cannot be run: %v", name, err))
		}
	}
}

// OpenBLAS is for tests whose code computes with numpy in several threads.
func OpenBLAS(tb testing.TB) {
	tb.Helper()
	Modules(tb, "numpy")
	if found, err := filepath.Glob("/usr/lib/*/libopenblas.so.0"); err != nil || len(found) == 0 {
		Unmet(tb, "numpy computes in one thread; needed is what Debian calls libopenblas0-pthread")
	}
}

// Modules is for tests whose code imports modules that do not come with Python.
func Modules(tb testing.TB, names ...string) {
	tb.Helper()
	Python(tb)
	const find = "import importlib.util, sys; sys.exit(' '.join(n for n in sys.argv[1:] if not importlib.util.find_spec(n)) or None)"
	cmd := exec.CommandContext(tb.Context(), python, append([]string{"-I", "-c", find}, names...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		Unmet(tb, fmt.Sprintf("%s has no %s", python, strings.TrimSpace(string(out))))
	}
}

// Cgroup is for tests that need root and control groups in which memory,
// processors and processes can be limited.
func Cgroup(tb testing.TB) {
	tb.Helper()
	Root(tb)
	if err := cgroups(); err != nil {
		Unmet(tb, fmt.Sprintf("control groups cannot be used: %v", err))
	}
}

// cgroups tries to make a group in each hierarchy that limits need.
func cgroups() error {
	const root = "/sys/fs/cgroup"
	controllers := []string{"memory", "cpu", "pids"}
	dirs := []string{root}
	if text, err := os.ReadFile(root + "/cgroup.controllers"); err == nil { // version 2
		have := strings.Fields(string(text))
		for _, c := range controllers {
			if !slices.Contains(have, c) {
				return errors.New("there is no controller " + c)
			}
		}
	} else {
		dirs = nil
		for _, c := range controllers {
			dirs = append(dirs, filepath.Join(root, c))
		}
	}
	for _, dir := range dirs {
		group, err := os.MkdirTemp(dir, "cloche-need-")
		if err != nil {
			return err
		}
		if err := unix.Rmdir(group); err != nil {
			return err
		}
	}
	return nil
}
