package doctor

import (
	"context"
	"errors"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

func TestShim(t *testing.T) {
	h := madeUp(t, 1000, nil)
	program := need.Shim(t)
	h.o.Shim = func() (string, error) { return program, nil }
	findings := h.shim()
	if len(findings) != 2 {
		t.Fatalf("found %+v", findings)
	}
	says(t, findings[0], OK, program, "")
	says(t, findings[1], OK, "which has the fixes of the published escapes", "")

	h.o.Shim = func() (string, error) { return h.path("usr/bin/python3"), nil }
	if findings = h.shim(); len(findings) != 2 {
		t.Fatalf("found %+v", findings)
	}
	says(t, findings[0], OK, "/usr/bin/python3", "")
	says(t, findings[1], Limited, "cannot be told", BuildShim())

	h.o.Shim = func() (string, error) { return h.path("nowhere"), nil }
	if findings = h.shim(); len(findings) != 1 {
		t.Fatalf("found %+v", findings)
	}
	says(t, findings[0], Missing, "nowhere: no such file", BuildShim())
	h.o.Shim = func() (string, error) { return "", errors.New("neither here nor there") }
	says(t, h.shim()[0], Missing, "neither here nor there", BuildShim())
}

func TestInterpreter(t *testing.T) {
	const install = "apt-get install --no-install-recommends python3"
	const again = "sudo apt-get install --reinstall python3 python3-minimal libpython3-stdlib"
	for _, test := range []struct {
		name, version string
		err           error
		state         State
		detail        string
		remedy        string
	}{
		{"new", "3.14.1", nil, OK, "/usr/bin/python3 is Python 3.14.1", ""},
		{"oldest", "3.10.0", nil, OK, "3.10.0", ""},
		{"one too old", "3.9.19", nil, Missing, "3.10 or newer is needed", ""},
		{"another language", "4.0.0", nil, Missing, "is Python 4.0.0", ""},
		{"does not start", "", errors.New("exit status 1"), Missing, "does not start: exit status 1", again},
		{"says something else", "hello", nil, Missing, "does not start", again},
		{"a part of it", "3.11.2", errors.New("No module named '_ctypes'"), Missing, "lacks modules of its own library: No module named '_ctypes'", "sudo " + install},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := madeUp(t, 1000, nil)
			h.python = func(context.Context) (string, error) { return test.version, test.err }
			says(t, h.interpreter(t.Context()), test.state, test.detail, test.remedy)
		})
	}
	without := map[string]string{"usr/bin/python3": absent}
	says(t, madeUp(t, 1000, without).interpreter(t.Context()), Missing, "is not there", "sudo "+install)
	says(t, madeUp(t, 0, without).interpreter(t.Context()), Missing, "is not there", install)
}

// TestRunPython asks the real one, which does not look at the user's own.
func TestRunPython(t *testing.T) {
	need.Python(t)
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PYTHONPATH", dir)
	write(t, dir+"/select.py", "raise SystemExit(1)")
	version, err := runPython(t.Context())
	if err != nil || len(version) < len("3.1.1") || version[:2] != "3." {
		t.Errorf("runPython = %q, %v", version, err)
	}
}
