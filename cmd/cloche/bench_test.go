package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloche.dev/cloche/cmd/cloche/internal/bench"
	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/tools/mcpclient"
)

// benched is a cloche bench with a folder for what it makes.
func benched(t *testing.T, args ...string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	temp = t.TempDir()
	cmd = exec.CommandContext(context.WithoutCancel(t.Context()), build.Programs(t), append([]string{"bench"}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "TMPDIR=" + temp, "PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = time.Second
	return cmd, temp
}

// nothing checks that a folder is empty.
func nothing(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it left behind %v, %v", left, err)
	}
}

// TestBench measures everything that a quick run has, a single time, and reads
// the report. Whether bars are held is not for a test to say: the machine may be
// busy.
func TestBench(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		need.Modules(t, "pandas", "matplotlib")
		cmd, temp := benched(t, "--rounds", "1", "--json")
		var said, progress bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &progress
		if err := cmd.Run(); err != nil {
			t.Fatalf("bench: %v\n%s\n%s", err, progress.String(), said.String())
		}
		nothing(t, temp)
		var r report
		if err := json.Unmarshal(said.Bytes(), &r); err != nil {
			t.Fatalf("it printed no report: %v\n%s", err, said.String())
		}
		if h := r.Host; h.Root != (os.Getuid() == 0) || h.Kernel == "" || h.Processors < 1 || h.MemoryBytes < 1<<20 || !strings.HasPrefix(h.Python, "3.") {
			t.Errorf("the host is %+v", h)
		}
		var names []string
		for _, l := range r.Rows {
			names = append(names, l.Name)
			l.check(t)
			if begun := strings.Contains(progress.String(), l.Name+": "+l.What+"\n"); begun != (l.Verdict != bench.LeftOut) {
				t.Errorf("%s, which is %s: told as begun %v", l.Name, l.Verdict, begun)
			}
		}
		if !slices.Equal(names, bench.Names()) {
			t.Errorf("there are rows %v, want %v", names, bench.Names())
		}
	})
}

// A report is what TestBench reads of one.
type report struct {
	Host bench.Host
	Rows []reportLine
}

type reportLine struct {
	Name, What   string
	Cloche, Peer struct {
		Times *struct {
			Count    int
			MedianMS float64 `json:"median_ms"`
			P99MS    float64 `json:"p99_ms"`
		}
		Counts *struct{ Asked, Results, Refused int }
		Sizes  []bench.Size
	}
	Ratio   float64
	Verdict bench.Verdict
	Why     string
}

// check checks that a line says something, and nothing that cannot be.
func (l *reportLine) check(t *testing.T) {
	t.Helper()
	if (l.Verdict == bench.Within || l.Verdict == bench.Above) != (l.Why == "") {
		t.Errorf("%s is %s: %q", l.Name, l.Verdict, l.Why)
	}
	c := l.Cloche
	switch l.Verdict {
	case bench.LeftOut:
		if c.Times != nil || l.Why != "only a full run measures it" {
			t.Errorf("%s is left out: %+v", l.Name, l)
		}
		return
	case bench.Failed:
		t.Errorf("%s failed: %s", l.Name, l.Why)
		return
	}
	if c.Times == nil && len(c.Sizes) == 0 {
		t.Errorf("%s has no figures", l.Name)
	}
	if n := c.Times; n != nil && (n.Count < 1 || n.MedianMS <= 0 || n.P99MS < n.MedianMS) {
		t.Errorf("%s took %+v", l.Name, n)
	}
	if (l.Ratio > 0) != (c.Times != nil && l.Peer.Times != nil) {
		t.Errorf("%s has the ratio %v", l.Name, l.Ratio)
	}
	// Where the machine is very busy some may be refused; none may have failed.
	if n := c.Counts; n != nil && (n.Results == 0 || n.Results+n.Refused != n.Asked) {
		t.Errorf("%s: %+v", l.Name, n)
	}
	for _, s := range c.Sizes {
		if s.Bytes < 0 || s.Bytes > 10<<30 {
			t.Errorf("%s: %s is %d bytes", l.Name, s.What, s.Bytes)
		}
	}
}

// TestBenchInterrupt interrupts it at several moments: it ends soon, with the
// exit code that a shell expects, and leaves nothing behind.
func TestBenchInterrupt(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		for _, test := range []struct {
			row, name string // what is measured, and a process below bench that tells that it is
			signal    syscall.Signal
		}{
			{"call", "cloche", syscall.SIGINT},
			{"call", "python3", syscall.SIGINT},
			{"start", "python3", syscall.SIGTERM},
			{"new-at-once", "python3", syscall.SIGINT},
		} {
			t.Run(test.row+" at "+test.name, func(t *testing.T) {
				t.Parallel()
				cmd, temp := benched(t, "--rounds", "10000", test.row)
				var said, progress mcpclient.Log
				cmd.Stdout, cmd.Stderr = &said, &progress
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer cmd.Process.Kill() //nolint:errcheck // most often it has ended
				await(t, "the row", func() bool { return strings.Contains(progress.String(), test.row+": ") })
				busy(t, cmd.Process.Pid, test.name)
				left := holdings{processes: descendants(cmd.Process.Pid), mounts: mounts(), groups: owned(t, temp)}
				begin := time.Now()
				if err := cmd.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // its state tells
				if took := time.Since(begin); took > slow {
					t.Errorf("the end took %v", took)
				}
				if code := cmd.ProcessState.ExitCode(); code != 130 || said.String() != "" {
					t.Errorf("%v, want exit 130 and no report; it said:\n%s%s", cmd.ProcessState, progress.String(), said.String())
				}
				nothing(t, temp)
				left.gone(t)
			})
		}
	})
}

// owned returns the names that servers have in data directories below temp.
func owned(t *testing.T, temp string) (names []string) {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(temp, "cloche-bench-*", "*", "data", "run", "*.lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range locks {
		names = append(names, strings.TrimSuffix(filepath.Base(l), ".lock"))
	}
	return names
}
