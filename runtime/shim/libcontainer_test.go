package shim

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/need"
)

func TestPatched(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.3.5": false, "v1.3.6": true, "v1.3.7": true, "v1.3.6-rc.1": false, "v1.3.7-rc.1": true,
		"v1.4.2": false, "v1.4.3": true, "v1.4.3-rc.1": false, "v1.4.3+x-y": true,
		"v1.5.0-rc.3": false, "v1.5.0": true, "v1.5.3": true, "v1.5.1-0.20260101000000-abcdefabcdef": true,
		"v1.6.0-rc.1": true, "v1.10.0": true, "v2.0.0": true,
		"v1.2.8": false, "v1.2.99": false, "v1.1.15": false, "v1.0.0-rc93": false, "v0.1.1": false, "1.5.3": true,
	} {
		if got, err := Patched(version); err != nil || got != want {
			t.Errorf("Patched(%q) = %v, %v, want %v", version, got, err, want)
		}
	}
	for _, version := range []string{"", "(devel)", "v1.5", "v1.5.3.1", "v1.x.0", "v-1.5.3", "v1.5.99999"} {
		if got, err := Patched(version); err == nil || got {
			t.Errorf("Patched(%q) = %v, %v, want an error", version, got, err)
		}
	}
}

func TestLibcontainer(t *testing.T) {
	program := need.Shim(t)
	if version, err := Libcontainer(program); err != nil || !strings.HasPrefix(version, "1.") {
		t.Errorf("Libcontainer of the real shim = %q, %v", version, err)
	}
	for name, path := range map[string]string{"a program of C": "/bin/true", "no file": t.TempDir() + "/nowhere", "another program of Go": "/proc/self/exe"} {
		if version, err := Libcontainer(path); err == nil || errors.Is(err, ErrOld) || version != "" {
			t.Errorf("Libcontainer of %s = %q, %v, want an error that is not about its age", name, version, err)
		}
	}
}

// older returns the real shim, made to say that it was built with an older
// libcontainer.
func older(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(need.Shim(t))
	if err != nil {
		t.Fatal(err)
	}
	const before = "dep\tgithub.com/opencontainers/runc\tv1."
	at := strings.Index(string(text), before)
	if at < 0 {
		t.Fatal("the shim does not say what it was built with")
	}
	now := string(text)[at : at+len(before)+1]
	program := strings.ReplaceAll(string(text), now, before+"2")
	path := t.TempDir() + "/cloche-shim"
	if err := os.WriteFile(path, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOldIsRefused: a shim with an old libcontainer is not started. The real one
// is, as the other tests show.
func TestOldIsRefused(t *testing.T) {
	path := older(t)
	version, err := Libcontainer(path)
	if !errors.Is(err, ErrOld) || !strings.HasPrefix(version, "1.2.") {
		t.Errorf("Libcontainer = %q, %v, want that it is old", version, err)
	}
	r := New(Options{Path: path, Instance: "test-old"})
	defer r.Close()
	_, err = r.Limited(context.Background())
	if !errors.Is(err, ErrOld) || fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "was built with libcontainer 1.2.") {
		t.Errorf("Limited with an old libcontainer = %v, want that it is refused", err)
	}
}
