// Package instance tells the server processes of a data directory apart: each
// has a name and holds a lock as long as it lives, and each at its start clears
// up after those that died.
package instance

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const suffix = ".lock"

// An Instance is this process's claim to its name. It is held until Close, or
// until the process dies.
type Instance struct {
	Name string
	path string
	lock *os.File
}

// DataDir returns the data directory: explicit if it is set, else what the
// environment says, else the place that the system's rules give to uid
// (FHS 3.0; XDG Base Directory Specification 0.8).
func DataDir(explicit string, uid int, env func(string) string) (string, error) {
	switch {
	case explicit != "":
		return filepath.Abs(explicit)
	case env("CLOCHE_DATA_DIR") != "":
		return filepath.Abs(env("CLOCHE_DATA_DIR"))
	case uid == 0:
		return "/var/lib/cloche", nil
	case filepath.IsAbs(env("XDG_STATE_HOME")):
		return filepath.Join(env("XDG_STATE_HOME"), "cloche"), nil
	case env("HOME") != "":
		return filepath.Join(env("HOME"), ".local", "state", "cloche"), nil
	}
	return "", errors.New("no place for data: HOME is not set; pass --data-dir")
}

// Open makes the data directory, readable by its owner alone, where it is
// missing, claims a name in it, and calls sweep for each name whose process is
// dead; the name is forgotten if sweep returns nil. It is an error if others may
// write to an existing directory.
func Open(dataDir string, sweep func(name string) error) (*Instance, error) {
	run := filepath.Join(dataDir, "run")
	if err := os.MkdirAll(run, 0o700); err != nil { //nolint:forbidigo // the server's own data directory
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := private(dataDir); err != nil {
		return nil, err
	}
	i, err := claim(run)
	if err != nil {
		return nil, fmt.Errorf("claim a name in %s: %w", run, err)
	}
	return i, errors.Join(i.sweep(run, sweep)...)
}

// private refuses a directory that is another user's, or that others may write;
// one that others may read it closes to them.
func private(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if int(st.Uid) != os.Getuid() {
		return fmt.Errorf("data directory %s belongs to user %d, not to this one (%d); pass another --data-dir", dir, st.Uid, os.Getuid())
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("data directory %s may be written by others; chmod go-w %s", dir, dir)
	}
	if st.Mode&0o077 != 0 {
		return os.Chmod(dir, 0o700) //nolint:forbidigo // the server's own data directory
	}
	return nil
}

// claim makes a lock file with a name that nobody has on this host, and locks
// it. Another process that sweeps may take the file for a dead one's before it
// is locked: then it is gone, and the next is tried.
func claim(run string) (*Instance, error) {
	for range 10 {
		name := "i" + strings.ToLower(rand.Text())
		path := filepath.Join(run, name+suffix)
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:forbidigo // the server's own data directory
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0 {
			return &Instance{Name: name, path: path, lock: f}, nil
		}
		_ = f.Close()
	}
	return nil, errors.New("other processes took each name away")
}

// sweep looks for names whose lock nobody holds.
func (i *Instance) sweep(run string, sweep func(name string) error) []error {
	paths, err := filepath.Glob(filepath.Join(run, "i*"+suffix))
	if err != nil {
		return []error{err}
	}
	var errs []error
	for _, path := range paths {
		if path == i.path {
			continue
		}
		if err := sweepOne(path, sweep); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func sweepOne(path string, sweep func(name string) error) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0) //nolint:forbidigo // the server's own data directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // its process lives
	}
	name := strings.TrimSuffix(filepath.Base(path), suffix)
	if err := sweep(name); err != nil {
		return fmt.Errorf("clear up after %s: %w", name, err)
	}
	return os.Remove(path) //nolint:forbidigo // the server's own data directory
}

// Close gives the name up.
func (i *Instance) Close() error {
	return errors.Join(os.Remove(i.path), i.lock.Close()) //nolint:forbidigo // the server's own data directory
}
