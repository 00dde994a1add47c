// Package build makes the real programs for tests that run them: what a user
// would build, once a test process, where every user of the machine can run it.
package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Root returns the top folder of the module that the working directory is in.
// A test's working directory is the folder of its package.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := root()
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Programs builds cloche, without cgo, and cloche-shim into one folder and
// returns the path of cloche; the shim stands beside it, where cloche looks for
// it. The programs are built once a test process and removed when it ends,
// however it ends. Programs may be called from several goroutines.
func Programs(tb testing.TB) (cloche string) {
	tb.Helper()
	dir, err := programs()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, "cloche")
}

var programs = sync.OnceValues(func() (string, error) {
	// Not of one test: the first that asks must not take the programs along.
	ctx := context.Background()
	top, err := root()
	if err != nil {
		return "", err
	}
	dir, err := scratch(ctx)
	if err != nil {
		return "", fmt.Errorf("make a folder for the programs: %w", err)
	}
	if err := program(ctx, top, dir, "cloche", "CGO_ENABLED=0"); err != nil {
		return "", err
	}
	if err := program(ctx, top, dir, "cloche-shim", "CGO_ENABLED=1"); err != nil {
		return "", err
	}
	return dir, nil
})

// program builds ./cmd/name of the module at top into dir.
func program(ctx context.Context, top, dir, name, cgo string) error {
	// Version control is left out: the tree may belong to another user, and git
	// then refuses to say anything about it.
	file := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", file, "./cmd/"+name)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return os.Chmod(file, 0o755) // whatever the umask is
}

// lifeline is the writing end of the pipe that scratch's remover reads. It is
// never written to and never closed: the kernel closes it with the process.
var lifeline *os.File

// scratch makes a folder that every user can enter, and starts a process that
// removes it once this process is gone, killed or not.
// Preconditions: it is called once.
func scratch(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "cloche-programs-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	remover := exec.CommandContext(ctx, "sh", "-c", `read -r _; rm -rf -- "$1"`, "sh", dir)
	remover.Stdin = r
	// A group of its own, so that Ctrl-C leaves it time.
	remover.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := remover.Start(); err != nil {
		w.Close()
		os.RemoveAll(dir)
		return "", err
	}
	lifeline = w
	return dir, nil
}

// root looks for go.mod from the working directory upwards.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod in the working directory or above it")
		}
		dir = parent
	}
}
