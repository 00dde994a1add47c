package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestConfiguration(t *testing.T) {
	h := madeUp(t, 1000, map[string]string{
		"good.toml": "[sandbox.host]\nhide = [\"share/secret\"]\n", "bad.toml": "[calls]\ntimeout = 5\n",
	})
	h.o.Config = h.path("good.toml")
	f, policy := h.configuration()
	says(t, f, OK, h.o.Config, "")
	if got := policy.Sandbox.Host.Hide; len(got) != 1 || got[0] != "share/secret" {
		t.Errorf("the policy hides %q", got)
	}
	h.o.Config = h.path("bad.toml")
	f, policy = h.configuration()
	says(t, f, Missing, "timeout", "cloche policy check "+h.o.Config)
	if policy.Sandbox.Memory == 0 {
		t.Error("a file with a mistake leaves no policy")
	}
	h.o.Config = h.path("no where.toml")
	f, _ = h.configuration()
	says(t, f, Missing, "no such file", "cloche policy show > '"+h.o.Config+"'")
	noConfig(t)
	h.o.Config = h.path("good.toml/x")
	f, _ = h.configuration()
	says(t, f, Missing, "not a directory", "cloche --config FILE doctor")
	h.o.Config = ""
	f, _ = h.configuration()
	says(t, f, OK, "the defaults hold", "")
}

func TestDataDirectory(t *testing.T) {
	h := madeUp(t, os.Getuid(), map[string]string{"file": ""})
	f, _, own := h.dataDirectory()
	if h.uid != 0 {
		says(t, f, Missing, "HOME is not set", "cloche --data-dir DIR doctor")
	}
	if own != nil {
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h.o.DataDir = h.path("file")
	f, _, own = h.dataDirectory()
	says(t, f, Missing, "make data directory", "mv "+h.o.DataDir+" "+h.o.DataDir+".old")
	if own != nil {
		t.Error("a file is a data directory")
	}

	h.o.DataDir = h.path("data")
	f, dir, own := h.dataDirectory()
	says(t, f, OK, h.o.DataDir, "")
	if own == nil || dir != h.o.DataDir {
		t.Fatalf("dataDirectory returns %q and %v", dir, own)
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(h.o.DataDir, "run", "iabc.lock"), "") // a dead server's
	h.o.Sweep = func(name string) error { return errors.New(name + " stays") }
	f, _, own = h.dataDirectory()
	says(t, f, Limited, "iabc stays", h.asRoot(self()+" doctor"))
	if own == nil {
		t.Fatal("what a dead server left keeps a living one from its place")
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUsable(t *testing.T) {
	h := madeUp(t, os.Getuid(), map[string]string{"file": "", "folder/x": ""})
	folder, file, nothing := h.path("folder"), h.path("file"), h.path("no thing")
	if got, want := h.usable(folder), "chmod 700 "+folder; got != want {
		t.Errorf("usable of a folder = %q, want %q", got, want)
	}
	if got, want := h.usable(file), "mv "+file+" "+file+".old"; got != want {
		t.Errorf("usable of a file = %q, want %q", got, want)
	}
	h.uid++
	for path, word := range map[string]string{folder: folder, nothing: "'" + nothing + "'"} {
		if got := h.usable(path); !strings.HasPrefix(got, "sudo install -d -m 700 -o ") || !strings.HasSuffix(got, " "+word) {
			t.Errorf("usable of what is another's or nowhere = %q", got)
		}
	}
}

func TestDisk(t *testing.T) {
	const move = "cloche --data-dir DIR doctor"
	const gb = 1e9 / 1000 // in blocks
	disk := func(kind int64, free, all, ffree, files uint64) unix.Statfs_t {
		return unix.Statfs_t{Type: kind, Bsize: 1000, Bavail: free, Blocks: all, Ffree: ffree, Files: files}
	}
	for _, test := range []struct {
		name           string
		st             unix.Statfs_t
		state          State
		detail, remedy string
	}{
		{"room", disk(unix.EXT4_SUPER_MAGIC, 50*gb, 100*gb, 900, 1000), OK, "50 GB of 100 GB free, room for 900 files, on ext4", ""},
		{"five in a hundred", disk(unix.XFS_SUPER_MAGIC, 5*gb, 100*gb, 900, 1000), OK, "on xfs", ""},
		{"one block less", disk(unix.XFS_SUPER_MAGIC, 5*gb-1, 100*gb, 900, 1000), Limited, "less than 1 GB or 5 % is left", move},
		{"a gigabyte of a small one", disk(unix.EXT4_SUPER_MAGIC, gb, 2*gb, 900, 1000), OK, "1 GB of 2 GB free", ""},
		{"a block less of a small one", disk(unix.EXT4_SUPER_MAGIC, gb-1, 2*gb, 900, 1000), Limited, "less than 1 GB", move},
		{"files at the limit", disk(unix.EXT4_SUPER_MAGIC, 50*gb, 100*gb, 50, 1000), OK, "room for 50 files", ""},
		{"one file less", disk(unix.EXT4_SUPER_MAGIC, 50*gb, 100*gb, 49, 1000), Limited, "less than 5 % of its files are left", move},
		{"files without number", disk(unix.BTRFS_SUPER_MAGIC, 50*gb, 100*gb, 0, 0), OK, "room for any number of files, on btrfs", ""},
		{"memory", disk(unix.TMPFS_MAGIC, 50*gb, 100*gb, 900, 1000), OK, "on tmpfs: it is memory, and is lost", ""},
		{"another machine's", disk(unix.NFS_SUPER_MAGIC, 50*gb, 100*gb, 900, 1000), Limited, "on nfs; locks and renames may not hold there", move},
		{"a program's", disk(unix.FUSE_SUPER_MAGIC, 50*gb, 100*gb, 900, 1000), Limited, "on fuse; locks", move},
		{"unknown", disk(0x1234, 50*gb, 100*gb, 900, 1000), OK, "on type 0x1234", ""},
		{"beyond numbers", disk(0x1234, 1<<63, 1<<63, 1<<63, 1<<63), OK, "EB of", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := madeUp(t, 1000, nil)
			h.statfs = func(_ string, st *unix.Statfs_t) error { *st = test.st; return nil }
			says(t, h.disk("/data"), test.state, test.detail, test.remedy)
		})
	}
	h := madeUp(t, 1000, nil)
	h.statfs = func(string, *unix.Statfs_t) error { return unix.EIO }
	says(t, h.disk("/data"), Limited, "cannot be asked: input/output error", "")
}
