package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// etc is where the configuration of the whole machine is.
const etc = "/etc/cloche/config.toml"

// maxFile bounds a configuration.
const maxFile = 1 * MB

// Find returns the path of the configuration to use: explicit, which must be
// there, if it is not empty; for root /etc/cloche/config.toml; for others that
// of the user below $XDG_CONFIG_HOME (unset: ~/.config), else that of /etc. It
// is "" when there is none and the defaults hold. A place that cannot be looked
// at is an error: a policy must not be missed in silence.
func Find(explicit string) (path string, err error) {
	return finder{uid: os.Geteuid(), env: os.Getenv, etc: etc}.find(explicit)
}

// A finder is who looks for a configuration, and where.
type finder struct {
	uid int
	env func(name string) string
	etc string
}

func (f finder) find(explicit string) (string, error) {
	if explicit != "" {
		if _, err := os.Stat(explicit); err != nil { //nolint:forbidigo // the administrator's own file
			return "", fmt.Errorf("find the configuration: %w", err)
		}
		return filepath.Abs(explicit)
	}
	for _, path := range f.places() {
		_, err := os.Stat(path) //nolint:forbidigo // the administrator's own file
		switch {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("find the configuration: %w; use --config to name one", err)
		}
	}
	return "", nil
}

// places returns where to look, the first first.
func (f finder) places() []string {
	if f.uid == 0 {
		return []string{f.etc}
	}
	// The XDG specification has relative paths ignored.
	base := f.env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		base = filepath.Join(f.env("HOME"), ".config")
	}
	if !filepath.IsAbs(base) {
		return []string{f.etc}
	}
	return []string{filepath.Join(base, "cloche", "config.toml"), f.etc}
}

// Load reads the configuration at path; "" is the default one. A file that
// somebody else could write is refused: it must be regular, belong to root or to
// the current user, and not be writable by group or others. Mistakes in what it
// says are an *Error.
func Load(path string) (Config, error) {
	if path == "" {
		return Default(), nil
	}
	// Without O_NONBLOCK, opening a FIFO would hang.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:forbidigo // the administrator's own file
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	if err := trusted(path, fi, os.Geteuid()); err != nil {
		return Config{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(maxFile)+1))
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	if len(text) > int(maxFile) {
		return Config{}, fmt.Errorf("configuration %s: longer than %s", path, maxFile)
	}
	return Parse(path, text)
}

// trusted returns why the file of that name is not to be believed, nil if it is.
func trusted(path string, fi fs.FileInfo, uid int) error {
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("configuration %s: not a regular file", path)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != uid {
		return fmt.Errorf("configuration %s: belongs to uid %d, who is neither root nor you (uid %d); run: chown %d %s",
			path, st.Uid, uid, uid, path)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("configuration %s: group or others may write it (mode %04o); run: chmod go-w %s",
			path, fi.Mode().Perm(), path)
	}
	return nil
}
