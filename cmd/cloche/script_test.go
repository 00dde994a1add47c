package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/runtime/need"
)

// updateVariable is the environment variable that, set to 1, has golden parts of
// the scripts written instead of compared.
const updateVariable = "CLOCHE_UPDATE"

// scripts is where they are.
var scripts = filepath.Join("testdata", "script")

// TestScripts runs the real programs as the scripts say, as root and as an
// ordinary user. A script finds cloche in PATH and the folder of both programs
// in PROGRAMS; its data directory, home and configuration are its own.
func TestScripts(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		programs := filepath.Dir(build.Programs(t))
		testscript.Run(t, testscript.Params{
			Dir:                 scripts,
			Setup:               func(e *testscript.Env) error { return setUp(e, programs) },
			Condition:           func(name string) (bool, error) { return condition(t, name) },
			Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
			UpdateScripts:       os.Getenv(updateVariable) == "1" && unix.Access(scripts, unix.W_OK) == nil,
			RequireExplicitExec: true,
			RequireUniqueNames:  true,
			Deadline:            time.Now().Add(2 * time.Minute),
		})
	})
}

// setUp gives a script its own places.
func setUp(e *testscript.Env, programs string) error {
	e.Setenv("PATH", programs+":"+e.Getenv("PATH"))
	e.Setenv("PROGRAMS", programs)
	e.Setenv("CLOCHE_DATA_DIR", filepath.Join(e.WorkDir, "data"))
	e.Setenv("SHELL", "/bin/bash")
	home := filepath.Join(e.WorkDir, "home")
	e.Setenv("HOME", home)
	return os.Mkdir(home, 0o700)
}

// condition tells what a script may depend on: [root], and [cgroup], that the
// kernel limits what runs in a sandbox as a whole.
func condition(t *testing.T, name string) (bool, error) {
	switch name {
	case "root":
		return os.Getuid() == 0, nil
	case "cgroup":
		if os.Getuid() == 0 {
			need.Cgroup(t)
		}
		return os.Getuid() == 0, nil
	}
	return false, fmt.Errorf("no condition %q", name)
}

// exits is a command of scripts, "exits CODE PROGRAM ARGUMENT…": the program is
// to end with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit %d, want %d", got, want)
	}
}
