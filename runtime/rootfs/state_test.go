package rootfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestStateBelow(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("usr/bin/python3.11")
	if err := os.Symlink("python3.11", in("usr/bin/python3")); err != nil {
		t.Fatal(err)
	}
	write("usr/lib/python3/dist-packages/numpy/version.py")
	write("usr/lib/python3.11/os.py")
	write("etc/ld.so.cache")
	write("home/user/file")
	seen := map[string]string{}
	state := func(after string, is bool) {
		t.Helper()
		s := stateBelow(dir)
		if other, known := seen[s]; known == is {
			t.Errorf("after %s the state is new: %v (it is that after %q), want %v", after, !known, other, is)
		}
		seen[s] = after
	}
	state("the beginning", true)
	state("nothing", false)
	for _, change := range []string{
		"usr/lib/python3/dist-packages/pandas/version.py", "usr/local/lib/python3.11/dist-packages/x.py", "usr/lib/python3.11/lib.py",
		"etc/alternatives/libblas.so.3",
	} {
		write(change)
		state(change, true)
	}
	write("home/user/other")
	state("what is no part of the image", false)
	if err := os.Chtimes(in("etc/ld.so.cache"), time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	state("ldconfig", true)
	if err := os.Remove(in("usr/bin/python3.11")); err != nil {
		t.Fatal(err)
	}
	write("usr/bin/python3.11")
	state("another interpreter", true)
	if err := os.RemoveAll(in("usr/lib/python3")); err != nil {
		t.Fatal(err)
	}
	state("packages are gone", true)
}

func BenchmarkHostState(b *testing.B) {
	for b.Loop() {
		HostState()
	}
}
