package pydriver_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
	"cloche.dev/cloche/runtime/shim"
)

func TestMain(m *testing.M) {
	// What this process got from its own parent is not for bare Python.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	goleak.VerifyTestMain(m)
}

// newRunner returns a Runner with the real shim; it is closed with the test.
func newRunner(t *testing.T) sandbox.Runner {
	t.Helper()
	need.Namespaces(t)
	need.Python(t)
	r := shim.New(shim.Options{
		Path: need.Shim(t), Instance: "test-" + strings.ToLower(rand.Text()),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Stderr: t.Output(),
	})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the runner: %v", err)
		}
	})
	return r
}

// start starts a sandbox of a Runner of its own.
func start(t *testing.T, preload ...string) *sandboxtest.Box {
	t.Helper()
	return sandboxtest.Start(t, newRunner(t), sandboxtest.Spec(), preload...)
}

// preloaded starts a sandbox whose parent has imported modules.
func preloaded(t *testing.T, modules ...string) *sandboxtest.Box {
	t.Helper()
	need.Modules(t, modules...)
	b := start(t, modules...)
	if _, loaded, skipped := b.Modules(); len(loaded) != len(modules) {
		t.Fatalf("of %v are loaded %v, and skipped %v", modules, loaded, skipped)
	}
	return b
}

// bare runs code with Python alone, as a script in an empty directory, in the
// environment that calls have. What it says of that directory is left out.
func bare(t *testing.T, b *sandboxtest.Box, code string) sandboxtest.Result {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/cell.py", []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	var env map[string]string
	b.JSON("import json, os; print(json.dumps(dict(os.environ)))", &env)
	cmd := exec.CommandContext(t.Context(), rootfs.Python, "cell.py")
	cmd.Dir = dir
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("run bare Python: %v", err)
	}
	r := sandboxtest.Result{Out: strings.ReplaceAll(out.String(), dir+"/", ""), Err: strings.ReplaceAll(errs.String(), dir+"/", "")}
	if r.Code = cmd.ProcessState.ExitCode(); r.Code < 0 {
		r.Code, r.Signal = 0, int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return r
}

// firstProcess returns the process that is a sandbox's first, of the one that
// there is.
func firstProcess(t *testing.T) int {
	t.Helper()
	for _, pid := range sandboxtest.Descendants(os.Getpid()) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		first := regexp.MustCompile(`(?m)^NSpid:.*\s1$`).Match(status)
		if err == nil && first && strings.Contains(string(cmdline), "parent.py") {
			return pid
		}
	}
	t.Fatal("no sandbox is there")
	return 0
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}
