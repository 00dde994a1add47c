package template

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/rootfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bare is a template with no container around it.
type bare struct {
	*Template
	first *os.Process
}

// start starts a template that may import what is in testdata/modules.
func start(t *testing.T, patience time.Duration, modules ...string) bare {
	t.Helper()
	need.Python(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "parent.py")
	for name, text := range map[string]string{program: pydriver.Source, filepath.Join(dir, "filter"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := filepath.Abs("testdata/modules")
	if err != nil {
		t.Fatal(err)
	}
	var b bare
	var said bytes.Buffer
	o := Options{Modules: modules, Patience: patience, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	o.Start = func(socket *os.File) (func() error, error) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), rootfs.Python, program, pydriver.TemplateArgument)
		cmd.Env = []string{
			"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1", "PATH=/usr/bin:/bin",
			"OPENBLAS_NUM_THREADS=" + os.Getenv("OPENBLAS_NUM_THREADS"),
		}
		cmd.Stderr, cmd.ExtraFiles = &said, []*os.File{socket}
		// What modules start ends with it.
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		b.first = cmd.Process
		return func() error {
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
			_ = cmd.Wait()
			return nil
		}, nil
	}
	if b.Template, err = New(t.Context(), o); err != nil {
		t.Fatalf("New = %v; it said: %s", err, said.String())
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return b
}

func (b bare) settled(t *testing.T) Modules {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	m, err := b.Settled(ctx)
	if err != nil {
		t.Fatalf("Settled = %v", err)
	}
	return m
}

// TestModules: those that would not be in a fork as they are here are left out
// and named, whatever they do to the process that imports them, and the others
// are there all the same.
func TestModules(t *testing.T) {
	for _, tt := range []struct {
		name   string
		reason string // "" if it can be imported
	}{
		{"good", ""},
		{"asks", ""},
		{"prints", ""},
		{"raises", "ValueError('not\\ntoday')"},
		{"leaves", "SystemExit(3)"},
		{"no_such_module", "No module named 'no_such_module'"},
		{"exits", "its import ends the process"},
		{"crashes", "its import ends the process"},
		{"hangs", "its import did not end within 3s"},
		{"threads", "it starts a thread"},
		{"starts", "it starts a process"},
		{"opens", "it keeps a file open"},
		{"shares", "it shares memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := start(t, 3*time.Second, "json", tt.name, "decimal").settled(t)
			want := []string{"json", tt.name, "decimal"}
			if tt.reason != "" {
				want = []string{"json", "decimal"}
			}
			if diff := cmp.Diff(want, got.Loaded); diff != "" {
				t.Errorf("loaded (-want +got):\n%s", diff)
			}
			switch reason, skipped := got.Skipped[tt.name]; {
			case skipped != (tt.reason != ""), len(got.Skipped) > 1:
				t.Errorf("skipped %v, want %q", got.Skipped, tt.reason)
			case !strings.Contains(reason, tt.reason):
				t.Errorf("it was skipped because %q, want %q", reason, tt.reason)
			}
		})
	}
}

// TestNoModuleIsLeft: a template of modules that all cannot be imported has none.
func TestNoModuleIsLeft(t *testing.T) {
	b := start(t, time.Minute, "exits", "threads")
	if got := b.settled(t); len(got.Loaded) > 0 || len(got.Skipped) != 2 {
		t.Errorf("modules = %+v, want both skipped", got)
	}
	if b.best() == b.plain {
		t.Error("there is no process that tells sandboxes so")
	}
}

// TestLibrariesWithThreads: those that bear a fork are no reason.
func TestLibrariesWithThreads(t *testing.T) {
	need.Modules(t, "numpy")
	t.Setenv("OPENBLAS_NUM_THREADS", "4")
	if got := start(t, time.Minute, "numpy").settled(t); !slices.Equal(got.Loaded, []string{"numpy"}) {
		t.Errorf("modules = %+v, want numpy", got)
	}
}

// TestFirstEnds: nothing can be forked any more, and whoever waits is told.
func TestFirstEnds(t *testing.T) {
	b := start(t, time.Minute, "hangs")
	if b.Gone() {
		t.Fatal("it is gone from the start")
	}
	waits := make(chan error)
	go func() {
		_, err := b.Settled(t.Context())
		waits <- err
	}()
	if err := b.first.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err == nil {
		t.Error("Settled = nil, want an error")
	}
	if !b.Gone() {
		t.Error("it is not gone")
	}
	if n, err := b.Fork(t.Context(), Birth{Control: os.Stdin, Errors: os.Stderr}); err == nil {
		t.Errorf("Fork = %+v, want an error", n)
	}
}

// TestSecondEnds: one without modules stands in, until there is another one with.
func TestSecondEnds(t *testing.T) {
	b := start(t, time.Minute, "raises", "good", "threads")
	first := b.settled(t)
	full := b.best()
	if full == b.plain {
		t.Fatal("there is no process with modules")
	}
	killed(full.pidfd)
	<-full.gone
	if b.best() != b.plain {
		t.Error("what has ended is to be forked from")
	}
	deadline := time.Now().Add(4 * firstAgain)
	for b.best() == b.plain {
		if time.Now().After(deadline) {
			t.Fatal("it was not replaced")
		}
		<-time.After(50 * time.Millisecond)
	}
	if b.best() == full {
		t.Error("it is the same one")
	}
	if diff := cmp.Diff(first, b.settled(t)); diff != "" {
		t.Errorf("modules, then of the other one (-first +second):\n%s", diff)
	}
}

// TestForks: each is the first process of a pid namespace, in a user namespace
// with the ids that it was given; what they cannot join ends them, and nothing of
// them is left.
func TestForks(t *testing.T) {
	need.Root(t)
	b := start(t, time.Minute, "good")
	b.settled(t)
	for i := range 3 {
		_, theirs, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		ids := fmt.Sprintf("0 %d 2000", 3000*(i+1))
		n, err := b.Fork(t.Context(), Birth{Control: theirs, Errors: os.Stderr, IDs: ids})
		_ = theirs.Close()
		if err != nil {
			t.Fatalf("Fork = %v", err)
		}
		if got, want := strings.Fields(read(t, n.PID, "uid_map")), strings.Fields(ids); !slices.Equal(got, want) {
			t.Errorf("uid_map = %v, want %v", got, want)
		}
		if got := read(t, n.PID, "status"); !strings.Contains(got, fmt.Sprintf("NSpid:\t%d\t1\n", n.PID)) {
			t.Errorf("it is not the first process of a namespace: %s", got)
		}
		// A directory is no namespace.
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		err = n.Join(t.Context(), []*os.File{dir})
		_ = dir.Close()
		if err == nil || !strings.Contains(err.Error(), "setns") {
			t.Errorf("Join = %v, want setns to fail", err)
		}
		// Here nobody adopts it.
		waitGone(t, n)
	}
}

func read(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// waitGone waits for the end of a process that has not joined.
func waitGone(t *testing.T, n *Newborn) {
	t.Helper()
	raw, err := n.Self.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Self.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return ready > 0 || err != nil
	})
	if err != nil {
		t.Errorf("it did not end: %v", err)
	}
	_ = n.Self.Close()
}
