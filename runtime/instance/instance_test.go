package instance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDataDir(t *testing.T) {
	tests := []struct {
		name     string
		explicit string
		uid      int
		env      map[string]string
		want     string
	}{
		{"explicit goes first", "/x", 0, map[string]string{"CLOCHE_DATA_DIR": "/y"}, "/x"},
		{"environment", "", 0, map[string]string{"CLOCHE_DATA_DIR": "/y"}, "/y"},
		{"root", "", 0, map[string]string{"HOME": "/root"}, "/var/lib/cloche"},
		{"state home", "", 5, map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/cloche"},
		{"relative state home is ignored", "", 5, map[string]string{"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/cloche"},
		{"home", "", 5, map[string]string{"HOME": "/h"}, "/h/.local/state/cloche"},
		{"nothing", "", 5, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DataDir(tt.explicit, tt.uid, func(k string) string { return tt.env[k] })
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("DataDir(%q, %d) = %q, %v, want %q", tt.explicit, tt.uid, got, err, tt.want)
			}
		})
	}
}

func TestOpenSweepsTheDeadAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	living, err := Open(dir, nothing)
	if err != nil {
		t.Fatalf("Open(%q) = %v", dir, err)
	}
	defer living.Close()
	dead := deadName(t, dir)

	var swept []string
	second, err := Open(dir, func(name string) error { swept = append(swept, name); return nil })
	if err != nil {
		t.Fatalf("Open(%q) = %v", dir, err)
	}
	if diff := cmp.Diff([]string{dead}, swept); diff != "" {
		t.Errorf("swept names (-want +got):\n%s", diff)
	}
	if err := second.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "run", "*"))
	if diff := cmp.Diff([]string{living.path}, left); diff != "" {
		t.Errorf("lock files left (-want +got):\n%s", diff)
	}
}

func TestOpenKeepsTheNameWhenSweepingFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := Open(dir, nothing)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	dead := deadName(t, dir)
	stuck := errors.New("stuck")
	i, err := Open(dir, func(string) error { return stuck })
	if i == nil || !errors.Is(err, stuck) {
		t.Fatalf("Open = %v, %v, want an instance and %v", i, err, stuck)
	}
	defer i.Close()
	if _, err := os.Stat(filepath.Join(dir, "run", dead+suffix)); err != nil {
		t.Errorf("the dead one's lock file is gone: %v", err)
	}
}

func TestOpenRefusesADirectoryOthersMayWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nothing); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("Open of a directory of mode 0777 = %v, want an error with its remedy", err)
	}
}

func TestOpenMakesTheDirectoryPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	i, err := Open(dir, nothing)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	fi, err := os.Stat(dir)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode of a new data directory = %v, %v, want 0700", fi.Mode(), err)
	}
}

func TestOpenClosesADirectoryOthersMayRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	i, err := Open(dir, nothing)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v, %v, want 0700", fi.Mode(), err)
	}
}

func nothing(string) error { return nil }

// deadName leaves a lock file whose process is dead: a real one, that claimed a
// name and was ended.
func deadName(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperClaim$")
	cmd.Env = append(os.Environ(), "CLOCHE_TEST_CLAIM="+filepath.Join(dir, "run"))
	out, err := cmd.Output()
	name, _, _ := strings.Cut(string(out), "\n")
	if err != nil || !strings.HasPrefix(name, "i") {
		t.Fatalf("claim in another process: %q, %v", out, err)
	}
	return name
}

func TestHelperClaim(t *testing.T) {
	run := os.Getenv("CLOCHE_TEST_CLAIM")
	if run == "" {
		return // only for deadName
	}
	i, err := claim(run)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString(i.Name + "\n")
	os.Exit(0) // dies with its claim
}
