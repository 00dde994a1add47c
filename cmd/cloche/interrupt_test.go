package main_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/runtime/need"
)

// TestInterrupt sends signals to commands that a person waits for. They end at
// once, with the exit code that a shell expects, and leave nothing behind.
func TestInterrupt(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		waiting := named("waiting") + "import time\ntime.sleep(600)\n"
		for _, test := range []struct {
			name   string
			args   []string
			stdin  string
			signal syscall.Signal
			code   int // -1: the signal ends it
			stderr string
		}{
			{"Ctrl-C in a file", []string{"run", "-"}, waiting, syscall.SIGINT, 130, "stopped before its end"},
			{"SIGTERM in a file", []string{"run", "-"}, waiting, syscall.SIGTERM, 130, "stopped before its end"},
			{"terminal closed", []string{"run", "-"}, waiting, syscall.SIGHUP, -1, ""},
			{"killed", []string{"run", "-"}, waiting, syscall.SIGKILL, -1, ""},
			{"Ctrl-C in an entry", []string{"run"}, "if True:\n  " + strings.ReplaceAll(strings.TrimSpace(waiting), "\n", "\n  ") + "\n\n", syscall.SIGINT, 130, "stopped before its end"},
			{"Ctrl-C at the prompt", []string{"run"}, "", syscall.SIGINT, 130, ""},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				// What this process ignores, as under nohup, its children would too.
				caught := make(chan os.Signal, 1)
				signal.Notify(caught, syscall.SIGHUP)
				defer signal.Stop(caught)
				cmd := exec.CommandContext(context.WithoutCancel(t.Context()), build.Programs(t), append(test.args, "--data-dir", filepath.Join(t.TempDir(), "data"))...)
				cmd.Env = []string{"HOME=" + t.TempDir()}
				cmd.WaitDelay = time.Second
				var said bytes.Buffer
				cmd.Stderr = &said
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer cmd.Process.Kill() //nolint:errcheck // most often it has ended
				if _, err := io.WriteString(in, test.stdin); err != nil {
					t.Fatal(err)
				}
				name := "waiting"
				if test.args[len(test.args)-1] == "-" {
					in.Close()
				} else if test.stdin == "" {
					name = "python3" // a warm sandbox: the prompt is there
				}
				busy(t, cmd.Process.Pid, name)
				left := holdings{processes: descendants(cmd.Process.Pid), mounts: mounts()}
				begin := time.Now()
				if err := cmd.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // its state tells
				if took := time.Since(begin); took > slow {
					t.Errorf("the end took %v", took)
				}
				if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(said.String(), test.stderr) {
					t.Errorf("%v, want exit %d and %q; it said:\n%s", cmd.ProcessState, test.code, test.stderr, said.String())
				}
				left.gone(t)
			})
		}
	})
}
