package need

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// programsVariable tells a test process that another one started where that one
// has built the programs.
const programsVariable = "CLOCHE_TEST_PROGRAMS"

// Shim returns the path of cloche-shim; see Program.
func Shim(tb testing.TB) string {
	tb.Helper()
	return Program(tb, "cloche-shim", "CGO_ENABLED=1")
}

// Program builds ./cmd/name, with what env adds to the environment, and returns
// its path. All programs are in one folder that every user can enter. Each is
// built once a test process; they are removed when it ends, however it ends.
// Program may be called from several goroutines.
func Program(tb testing.TB, name string, env ...string) string {
	tb.Helper()
	if dir := os.Getenv(programsVariable); dir != "" {
		return filepath.Join(dir, name)
	}
	dir, err := scratch()
	if err != nil {
		tb.Fatalf("make a folder for programs: %v", err)
	}
	file := filepath.Join(dir, name)
	once(tb, file, func() error { return build(file, name, env, "-tags="+static) })
	return file
}

// Loosened builds cloche-shim with the walls named off, of which package
// runtime/container has a list, into a folder of its own, and returns that
// folder. It is for tests that attacks find something where there is something
// to find. Without tagged it is built as for use, with the same names told to the
// linker: then nothing must come of them.
func Loosened(tb testing.TB, tagged bool, walls ...string) (dir string) {
	tb.Helper()
	top, err := scratch()
	if err != nil {
		tb.Fatalf("make a folder for programs: %v", err)
	}
	tags, off := static, strings.Join(walls, ",")
	if tagged {
		tags += ",loosened"
	}
	dir = filepath.Join(top, fmt.Sprintf("loosened-%v-%s", tagged, off))
	once(tb, dir, func() error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return build(filepath.Join(dir, "cloche-shim"), "cloche-shim", []string{"CGO_ENABLED=1"},
			"-tags="+tags, "-ldflags=-X=cloche.dev/cloche/runtime/container.walls="+off)
	})
	return dir
}

// static are tags that spare a static program the parts of libc that cannot be
// static.
const static = "netgo,osusergo"

// once runs build unless it was run for that file.
func once(tb testing.TB, file string, build func() error) {
	tb.Helper()
	built, _ := builds.LoadOrStore(file, sync.OnceValue(build))
	if err := built.(func() error)(); err != nil {
		tb.Fatal(err)
	}
}

var builds sync.Map // of func() error, by the file that it makes

// build builds ./cmd/name of this module as file.
func build(file, name string, env []string, flags ...string) error {
	top, err := tree()
	if err != nil {
		return err
	}
	// Version control is left out: the tree may belong to another user, and git
	// then refuses to say anything about it.
	args := append([]string{"build", "-buildvcs=false"}, flags...)
	// Not of one test: the first that asks must not take the programs along.
	cmd := exec.CommandContext(context.Background(), "go", append(args, "-o", file, "./cmd/"+name)...)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return os.Chmod(file, 0o755) // whatever the umask is
}

// Tree returns the top folder of the module that the working directory is in.
// A test's working directory is the folder of its package.
func Tree(tb testing.TB) string {
	tb.Helper()
	dir, err := tree()
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func tree() (string, error) {
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

// lifeline is the writing end of the pipe that scratch's remover reads. It is
// never written to and never closed: the kernel closes it with the process.
var lifeline *os.File //nolint:unused // to be held is its use

// scratch makes a folder that every user can enter, and starts a process that
// removes it once this process is gone, killed or not.
var scratch = sync.OnceValues(func() (string, error) {
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
	remover := exec.CommandContext(context.Background(), "sh", "-c", `read -r _; rm -rf -- "$1"`, "sh", dir)
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
})
