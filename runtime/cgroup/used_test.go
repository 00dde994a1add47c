package cgroup

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/need"
)

func TestUsed(t *testing.T) {
	for _, tt := range []struct {
		name, stat string
		want       int64
	}{
		{"nothing", "", 0},
		{"version 1", "cache 900\nrss 1\nshmem 2\ntotal_cache 9000\ntotal_rss 10\ntotal_rss_huge 5\ntotal_shmem 20\n", 30},
		{"version 2", "anon 100\nfile 9000\nkernel 30\nshmem 200\nfile_mapped 7\n", 330},
		{"version 2 of an older kernel", "anon 100\nfile 9000\nshmem 200\n", 300},
		{"strange", "anon\nshmem x\nanon -5\n\nanon 1 2\ntotal_rss 99999999999999999999\nanon 7", 7},
		{"large", fmt.Sprint("anon ", int64(math.MaxInt64)), math.MaxInt64},
	} {
		if got := used([]byte(tt.stat)); got != tt.want {
			t.Errorf("%s: used = %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := At("").Used(); got != 0 {
		t.Errorf("of no group: %d", got)
	}
}

// TestUsedOfProcesses: memory that a process of the group takes is seen.
func TestUsedOfProcesses(t *testing.T) {
	need.Root(t)
	need.Python(t)
	const takes = 50_000_000
	instance := fmt.Sprintf("test-used-%d", os.Getpid())
	g, err := Make(instance, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		g.Kill()
		if err := g.Remove(5 * time.Second); err != nil {
			t.Error(err)
		}
	}()
	if !g.Limits.Memory {
		need.Unmet(t, "a control group that counts memory")
	}
	dirs := g.dirs
	if g.V2 {
		// A group that has controllers for those below it takes no process itself
		// (cgroups(7)).
		dirs = []string{g.dirs[0] + "/below"}
		if err := os.Mkdir(dirs[0], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c",
		fmt.Sprintf("import sys; sys.stdin.readline(); x = b'x' * %d; print(flush=True); sys.stdin.readline()", takes))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	for _, dir := range dirs {
		if err := os.WriteFile(dir+"/cgroup.procs", fmt.Append(nil, cmd.Process.Pid), 0); err != nil {
			t.Fatal(err)
		}
	}
	before := Find(instance).Used()
	fmt.Fprintln(in)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got := Find(instance).Used() - before; got < takes || got > 2*takes {
		t.Errorf("when a process has taken %d bytes, %d more are used", takes, got)
	}
}
