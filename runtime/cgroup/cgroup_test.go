package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// owner is a user that owns nothing else.
const owner = 65533

// makeGroup makes a group for owner, which is removed with the test.
func makeGroup(t *testing.T) (g *Group, instance string) {
	t.Helper()
	need.Cgroup(t)
	instance = "test-" + strings.ToLower(rand.Text())
	g, err := Make(instance, owner)
	if err != nil {
		t.Fatalf("Make = %v", err)
	}
	t.Cleanup(func() {
		Find(instance).Kill()
		if err := Find(instance).Remove(5 * time.Second); err != nil {
			t.Errorf("Remove = %v", err)
		}
	})
	return g, instance
}

// living starts a process that ignores every signal that it can, in the groups
// below those of g.
func living(t *testing.T, g *Group) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "trap '' HUP INT TERM; exec sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for _, dir := range g.dirs {
		if err := makeOwned(dir, []string{"box"}, owner); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "box", "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0); err != nil {
			t.Fatal(err)
		}
	}
	return cmd
}

// left returns which directories of g are there.
func left(g *Group) []string {
	return slices.DeleteFunc(slices.Clone(g.dirs), func(dir string) bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
}

func TestMakeAndRemove(t *testing.T) {
	g, instance := makeGroup(t)
	if !g.Limits.All() || len(g.dirs) == 0 || !strings.HasSuffix(g.Path, "/"+instance) || len(left(g)) != len(g.dirs) {
		t.Errorf("Make = %+v, want all limits and its directories", g)
	}
	for _, dir := range g.dirs {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil || st.Uid != owner {
			t.Errorf("%s belongs to user %d, %v, want %d", dir, st.Uid, err, owner)
		}
		if err := unix.Stat(filepath.Dir(filepath.Dir(dir)), &st); err != nil || st.Uid == owner {
			t.Errorf("what is above cloche's groups belongs to user %d, %v, want another", st.Uid, err)
		}
		weighs(t, filepath.Dir(dir))
	}
	if again, err := Make(instance, owner); err != nil || !slices.Equal(again.dirs, g.dirs) {
		t.Errorf("Make of what is there = %+v, %v, want the same", again, err)
	}
	found := Find(instance)
	if found.Path != g.Path {
		t.Errorf("Find = %q, want %q", found.Path, g.Path)
	}
	if err := g.Remove(0); err != nil || len(left(g)) > 0 {
		t.Errorf("Remove = %v, left %v", err, left(g))
	}
	for _, gone := range []*Group{g, found, At(g.Path), At(""), {}} {
		gone.Kill()
		if err := gone.Remove(0); err != nil {
			t.Errorf("Remove of what is gone = %v", err)
		}
	}
}

// weighs checks that the group dir has less of a processor than groups have that
// nobody gave a weight: 1024 in version 1, 100 in version 2.
func weighs(t *testing.T, dir string) {
	t.Helper()
	for file, want := range map[string]string{"cpu.shares": "512", "cpu.weight": "50"} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil && strings.TrimSpace(string(got)) != want {
			t.Errorf("%s of %s is %s, want %s", file, dir, got, want)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

func TestRemoveWaits(t *testing.T) {
	g, instance := makeGroup(t)
	cmd := living(t, g)
	other, _ := makeGroup(t) // a bystander
	start := time.Now()
	const wait = 50 * time.Millisecond
	if err := g.Remove(wait); !errors.Is(err, unix.EBUSY) || time.Since(start) < wait {
		t.Errorf("Remove with a process in it = %v after %v, want EBUSY after %v", err, time.Since(start), wait)
	}
	time.AfterFunc(50*time.Millisecond, func() { Find(instance).Kill() })
	if err := Find(instance).Remove(5 * time.Second); err != nil || len(left(g)) > 0 {
		t.Errorf("Remove of what is killed meanwhile = %v, left %v", err, left(g))
	}
	_ = cmd.Wait()
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGKILL {
		t.Errorf("the process ended by %v, want %v", s.Signal(), syscall.SIGKILL)
	}
	if len(left(other)) != len(other.dirs) {
		t.Errorf("of another group is left %v, want all", left(other))
	}
}

// write writes to a control file below each directory of g that has it; it says
// whether one had.
func write(g *Group, name, text string) (written bool) {
	for _, dir := range g.dirs {
		f, err := os.OpenFile(filepath.Join(dir, "box", name), os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, err = f.WriteString(text)
		written = written || err == nil
		f.Close()
	}
	return written
}

// TestKillOfTheFrozen: a process that does not run dies too.
func TestKillOfTheFrozen(t *testing.T) {
	g, instance := makeGroup(t)
	living(t, g)
	if !write(g, "freezer.state", "FROZEN") && !write(g, "cgroup.freeze", "1") {
		t.Fatal("nothing was frozen")
	}
	defer write(g, "freezer.state", "THAWED") // so that the test ends in any case
	Find(instance).Kill()
	if err := Find(instance).Remove(5 * time.Second); err != nil {
		t.Errorf("Remove of what was frozen = %v", err)
	}
}

// TestWithoutRight: who may make no group has none, and that is no error.
func TestWithoutRight(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		if os.Getuid() == 0 {
			return // who has the right: TestMakeAndRemove
		}
		if V2() && delegated() != "" {
			need.Unmet(t, "this user has a delegated group")
		}
		instance := "test-" + strings.ToLower(rand.Text())
		g, err := Make(instance, os.Getuid())
		if err != nil || g.Path != "" || g.Limits != (Limits{}) || g.ShimDir() != "" {
			t.Errorf("Make = %+v, %v, want no group", g, err)
		}
		g.Kill()
		if err := g.Remove(0); err != nil {
			t.Errorf("Remove of no group = %v", err)
		}
		Find(instance).Kill()
		if err := Find(instance).Remove(0); err != nil {
			t.Errorf("Remove of what never was = %v", err)
		}
	})
}

func TestInherit(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct{ name, from, to, want string }{
		{"empty", "0-3\n", "\n", "0-3\n"},
		{"has its own", "0-3\n", "1\n", "1\n"},
		{"nothing to be had", "\n", "\n", "\n"},
	} {
		from, to := file("from", tt.from), file("to", tt.to)
		if err := inherit(from, to); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got, _ := os.ReadFile(to); string(got) != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if err := inherit(file("from", "0"), filepath.Join(dir, "gone")); err != nil {
		t.Errorf("a hierarchy without the file: %v", err)
	}
}

// fakeRoot makes version 2 look for groups in a directory of the test's.
func fakeRoot(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old := root
	root = dir
	t.Cleanup(func() { root = old })
}

func TestVersion2(t *testing.T) {
	need.Root(t)
	fakeRoot(t, map[string]string{
		"cgroup.controllers": "cpuset cpu memory\n", "cgroup.subtree_control": "",
		"cloche/i1/cgroup.controllers": "cpu memory", "cloche/i1/cgroup.subtree_control": "cpu memory", "cloche/i1/cgroup.procs": "",
	})
	g, err := makeV2("i1", owner)
	if err != nil {
		t.Fatalf("makeV2 = %v", err)
	}
	if g.Path != "/cloche/i1" || !g.V2 || g.Limits.PIDs {
		t.Errorf("makeV2 = %+v, want it below cloche, without pids", g)
	}
	if got, want := g.ShimDir(), filepath.Join(root, "cloche/i1/shim"); got != want {
		t.Errorf("ShimDir() = %q, want %q", got, want)
	}
	if got, err := os.ReadFile(filepath.Join(root, "cloche", "cpu.weight")); err != nil || string(got) != "50" {
		t.Errorf("weight of cloche's groups = %q, %v, want 50", got, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, "cloche/i1/cgroup.procs"), &st); err != nil || st.Uid != owner {
		t.Errorf("cgroup.procs belongs to user %d, %v, want %d", st.Uid, err, owner)
	}
	// The root's own group gets what there is of what is wanted.
	if got, _ := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); string(got) != "+cpu" {
		t.Errorf("last written to the root's subtree_control = %q, want +cpu; pids are not there", got)
	}
}

func TestDelegated(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		files := map[string]string{}
		for _, dir := range []string{"", "user.slice/", "user.slice/u/", "user.slice/u/app/", "user.slice/u/app/run/"} {
			files[dir+"cgroup.procs"], files[dir+"cgroup.subtree_control"] = "", ""
		}
		fakeRoot(t, files)
		if os.Getuid() != 0 {
			for _, dir := range []string{"user.slice", "."} { // are another's
				if err := os.Chmod(filepath.Join(root, dir), 0o555); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = os.Chmod(filepath.Join(root, dir), 0o755) }()
			}
		}
		want := "/user.slice/u"
		if os.Getuid() == 0 {
			want = "/user.slice" // it may write anywhere
		}
		for _, tt := range []struct{ name, text, want string }{
			{"version 2", "0::/user.slice/u/app/run\n", want},
			{"both versions", "4:memory:/x\n0::/user.slice/u/app\n1:name=systemd:/y\n", want},
			{"version 1 alone", "4:memory:/user.slice/u/app/run\n", ""},
			{"at the root", "0::/\n", ""},
			{"not there", "0::/gone/away\n", ""},
			{"nothing", "", ""},
		} {
			if got := delegatedAbove(tt.text); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	})
}
