package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// TestTry tries on the real host, where all of it works.
func TestTry(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Namespaces(t)
		for _, name := range []string{"plain", "odd, with:colon and\\more"} {
			data := filepath.Join(memory(t), name)
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			before := sandboxtest.Mounts(t)
			got, err := try(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(works(), got); diff != "" {
				t.Errorf("in %q is tried (-want +got):\n%s", name, diff)
			}
			if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
				t.Errorf("in %q is left %v, %v", name, left, err)
			}
			if after := sandboxtest.Mounts(t); after != before {
				t.Errorf("the mounts of the host are\n%s\nand were\n%s", after, before)
			}
		}
		got, err := try(t.Context(), "")
		if _, onDisk := got.tried(stepData); err != nil || onDisk {
			t.Errorf("without a data directory is tried %v, %v", got, err)
		}
	})
}

// memory returns a folder on a file system that overlays can be on, which that of
// temporary files need not be.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "doctor-test-") //nolint:usetesting // that of tests may be on any file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestTryWithoutRoom: a place where nothing can be made is told of the overlay
// alone.
func TestTryWithoutRoom(t *testing.T) {
	need.Namespaces(t)
	got, err := try(t.Context(), filepath.Join(t.TempDir(), "nowhere"))
	if err != nil || got[stepData] != unix.ENOENT || got[stepOverlay] != 0 || got[stepProc] != 0 {
		t.Errorf("tried %v, %v, want that there is no such place", got, err)
	}
}

// TestTryOnOverlay: a file system that is no place for an overlay is found to be
// none. An overlay is one, for its upper layer.
func TestTryOnOverlay(t *testing.T) {
	need.Root(t)
	dir := memory(t)
	if err := layers(dir); err != nil {
		t.Fatal(err)
	}
	merged := filepath.Join(dir, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, "lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(merged, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	got, err := try(t.Context(), merged)
	if err != nil || got[stepData] == 0 || got[stepOverlay] != 0 {
		t.Errorf("tried %v, %v, want that an overlay goes on memory and not on %s", got, err, merged)
	}
}

// TestBlame: of kinds that are refused together, the one that is refused by
// itself is found. No kernel makes a kind of a flag that it does not know.
func TestBlame(t *testing.T) {
	need.Namespaces(t)
	bad := kind{"bad", unix.CLONE_NEWNS | unix.CLONE_FS} // which clone(2) excludes
	_, err := child(t.Context(), unix.CLONE_NEWUSER|bad.flag, tryNothing, "")
	if err != unix.EINVAL { //nolint:errorlint // it is to be the bare one
		t.Fatalf("child = %v, want %v", err, unix.EINVAL)
	}
	got := trial{}
	got.blame(t.Context(), []kind{{"user", unix.CLONE_NEWUSER}, bad, {"pid", unix.CLONE_NEWPID}}, unix.EPERM)
	if diff := cmp.Diff(trial{"user": 0, "bad": unix.EINVAL}, got); diff != "" {
		t.Errorf("blamed (-want +got):\n%s", diff)
	}
	got = trial{}
	got.blame(t.Context(), kindsOfShim, unix.EPERM) // each by itself is made
	if diff := cmp.Diff(trial{"user": unix.EPERM, "mnt": 0, "pid": 0}, got); diff != "" {
		t.Errorf("blamed (-want +got):\n%s", diff)
	}
}

func TestAllIDs(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true, "0 1000 1\n": false, "0 100000 4294967295": false, "": false, "0 0 65536\n65536 65536 4294901759\n": false,
	} {
		if got := allIDs(text); got != want {
			t.Errorf("allIDs(%q) = %v, want %v", text, got, want)
		}
	}
}
