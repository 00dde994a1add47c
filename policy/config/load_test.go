package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write makes a file that Load believes.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "")
		return path
	}
	var (
		etc  = file("etc/config.toml")
		xdg  = file("xdg/cloche/config.toml")
		home = file("home/.config/cloche/config.toml")
		mine = file("mine.toml")
		none = filepath.Join(dir, "none")
	)
	for _, tt := range []struct {
		name     string
		uid      int
		xdg      string
		home     string
		etc      string
		explicit string
		want     string
	}{
		{"root", 0, filepath.Join(dir, "xdg"), filepath.Join(dir, "home"), etc, "", etc},
		{"root, none", 0, filepath.Join(dir, "xdg"), filepath.Join(dir, "home"), none, "", ""},
		{"user, XDG", 7, filepath.Join(dir, "xdg"), filepath.Join(dir, "home"), etc, "", xdg},
		{"user, home", 7, "", filepath.Join(dir, "home"), etc, "", home},
		{"user, relative XDG", 7, "xdg", filepath.Join(dir, "home"), etc, "", home},
		{"user, XDG without a file", 7, none, filepath.Join(dir, "home"), etc, "", etc},
		{"user, nothing set", 7, "", "", etc, "", etc},
		{"user, none", 7, none, "", none, "", ""},
		{"explicit", 7, filepath.Join(dir, "xdg"), "", etc, mine, mine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"XDG_CONFIG_HOME": tt.xdg, "HOME": tt.home}
			f := finder{uid: tt.uid, env: func(name string) string { return env[name] }, etc: tt.etc}
			if got, err := f.find(tt.explicit); got != tt.want || err != nil {
				t.Errorf("find(%q) = %q, %v, want %q, nil", tt.explicit, got, err, tt.want)
			}
		})
	}
}

func TestFindErrors(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "c.toml", "")
	if got, err := Find("c.toml"); got != filepath.Join(dir, "c.toml") || err != nil {
		t.Errorf("Find(c.toml) = %q, %v, want it in full", got, err)
	}
	if got, err := Find("none.toml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Find(none.toml) = %q, %v, want %v", got, err, fs.ErrNotExist)
	}
	// A file where a folder should be is neither there nor not there.
	f := finder{etc: filepath.Join(dir, "c.toml", "config.toml")}
	if got, err := f.find(""); err == nil {
		t.Errorf("find behind a file = %q, nil, want an error", got)
	}
}

func TestLoad(t *testing.T) {
	if got, err := Load(""); err != nil || !cmp.Equal(got, Default()) {
		t.Errorf(`Load("") = %+v, %v, want the default`, got, err)
	}
	path := filepath.Join(t.TempDir(), "c.toml")
	write(t, path, full)
	got, err := Load(path)
	if err != nil {
		t.Fatalf("Load = %v, want nil", err)
	}
	if diff := cmp.Diff(wantFull(), got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
	write(t, path, "[pool]\nwarm = -1")
	if _, err := Load(path); err == nil || err.Error() != path+":2:8: pool.warm = -1: must be a whole number from 0 to 64" {
		t.Errorf("Load of a bad file = %v, want its problem", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		want string // "" is none; PATH stands for the path
	}{
		{"mode 0644", chmod(0o644), ""},
		{"mode 0400", chmod(0o400), ""},
		{"writable by group", chmod(0o620), "configuration PATH: group or others may write it (mode 0620); run: chmod go-w PATH"},
		{"writable by others", chmod(0o602), "configuration PATH: group or others may write it (mode 0602); run: chmod go-w PATH"},
		{"directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "configuration PATH: not a regular file"},
		{"FIFO", func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "configuration PATH: not a regular file"},
		{"link to a device", func(t *testing.T, path string) {
			if err := os.Symlink("/dev/zero", path); err != nil {
				t.Fatal(err)
			}
		}, "configuration PATH: not a regular file"},
		{"link to a file", func(t *testing.T, path string) {
			write(t, path+".real", "")
			if err := os.Symlink(path+".real", path); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"gone", func(*testing.T, string) {}, "read the configuration: open PATH: no such file or directory"},
		{"at 1 MB", func(t *testing.T, path string) { write(t, path, "#"+strings.Repeat("x", 999999)) }, ""},
		{"past 1 MB", func(t *testing.T, path string) { write(t, path, "#"+strings.Repeat("x", 1000000)) }, "configuration PATH: longer than 1 MB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.toml")
			tt.make(t, path)
			_, err := Load(path)
			var got string
			if err != nil {
				got = err.Error()
			}
			if want := strings.ReplaceAll(tt.want, "PATH", path); got != want {
				t.Errorf("Load = %q, want %q", got, want)
			}
		})
	}
}

func chmod(mode fs.FileMode) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		write(t, path, "")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// An owned is a regular file of some user.
type owned struct {
	fs.FileInfo
	uid uint32
}

func (owned) Mode() fs.FileMode  { return 0o600 }
func (o owned) Sys() any         { return &syscall.Stat_t{Uid: o.uid} }
func (owned) ModTime() time.Time { return time.Time{} }

func TestTrustedOwner(t *testing.T) {
	for _, tt := range []struct {
		owner uint32
		uid   int
		want  string
	}{
		{0, 0, ""},
		{0, 7, ""},
		{7, 7, ""},
		{7, 0, "configuration c.toml: belongs to uid 7, who is neither root nor you (uid 0); run: chown 0 c.toml"},
		{8, 7, "configuration c.toml: belongs to uid 8, who is neither root nor you (uid 7); run: chown 7 c.toml"},
	} {
		var got string
		if err := trusted("c.toml", owned{uid: tt.owner}, tt.uid); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("trusted of uid %d for uid %d = %q, want %q", tt.owner, tt.uid, got, tt.want)
		}
	}
}
