package seccomp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const python = "/usr/bin/python3"

// needPython skips the test where there is no Python, and fails it in CI.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(python); err != nil {
		unmet(t, "Python", err)
	}
}

// unmet skips a test that needs what is not there, and fails it in CI. Package
// need would make it one of those that make containers.
func unmet(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("need %s: %v", what, err)
	}
	t.Skipf("need %s: %v", what, err)
}

func TestPython(t *testing.T) {
	needPython(t)
	script, err := filepath.Abs("testdata/work.py")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{python, "-I", script}
	want := []string{"refused", "processes", "pools", "files", "sockets", "oneself"}
	if err := exec.CommandContext(t.Context(), python, "-I", "-c", "import numpy").Run(); err == nil {
		args, want = append(args, "blas"), append(want, "blas")
	} else {
		t.Log("without numpy, which is not installed")
	}
	c := helper(t, "exec", args...)
	c.Env = append(c.Env, "OPENBLAS_NUM_THREADS=8", "OMP_NUM_THREADS=8")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v, after printing %q", script, err, out)
	}
	got := strings.Fields(string(out))
	for _, w := range want {
		if !strings.Contains(string(out), w+"\n") {
			t.Errorf("%s printed %q, want %q", script, got, want)
		}
	}
	t.Logf("%q", got)
}
