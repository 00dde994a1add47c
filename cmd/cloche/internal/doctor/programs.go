package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/shim"
)

// shim tells whether the program that makes containers is there, and which
// libcontainer it was built with.
func (h *Host) shim() []Finding {
	const name, library = "cloche-shim", "runc"
	path, err := h.o.Shim()
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			f.Close()
		}
	}
	if err != nil {
		return []Finding{missing(name, h.o.Readable(err), BuildShim())}
	}
	findings := []Finding{good(name, path)}
	version, err := shim.Libcontainer(path)
	switch {
	case errors.Is(err, shim.ErrOld):
		return append(findings, missing(library, h.o.Readable(err), BuildShim()))
	case err != nil:
		return append(findings, limited(library, "which libcontainer the shim was built with cannot be told: "+h.o.Readable(err), BuildShim()))
	}
	return append(findings, good(library, "libcontainer "+version+", which has the fixes of the published escapes"))
}

// BuildShim is the command that builds the shim beside this program.
func BuildShim() string {
	dir := "."
	if self, err := os.Executable(); err == nil {
		dir = filepath.Dir(self)
	}
	return "CGO_ENABLED=1 go build -o " + Quoted(dir) + "/ cloche.dev/cloche/cmd/cloche-shim"
}

// oldestPython is the first that the parent of a sandbox runs on.
const oldestPythonMajor, oldestPythonMinor = 3, 10

// question imports what the parent does, and prints the version.
const question = `import sys; print("%d.%d.%d" % sys.version_info[:3])
import _ctypes, _signal, _socket, _thread, gc, posix, select, time, traceback`

// runPython asks the interpreter of sandboxes, alone: no variable, no folder and
// no package of a user's is looked at.
func runPython(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, rootfs.Python, "-I", "-c", question)
	cmd.Env = []string{}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	version := strings.TrimSpace(string(out))
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return version, fmt.Errorf("%w: %.200s", err, lines[len(lines)-1])
	}
	return version, nil
}

// interpreter starts the one of sandboxes.
func (h *Host) interpreter(ctx context.Context) Finding {
	const name = "python"
	if !h.there(rootfs.Python) {
		return missing(name, rootfs.Python+" is not there", h.install("python3"))
	}
	version, err := h.python(ctx)
	var major, minor int
	if _, scan := fmt.Sscanf(version, "%d.%d", &major, &minor); scan != nil {
		return missing(name, fmt.Sprintf("%s does not start: %v", rootfs.Python, errors.Join(err, scan)), h.asRoot("apt-get install --reinstall python3 python3-minimal libpython3-stdlib"))
	}
	if major != oldestPythonMajor || minor < oldestPythonMinor {
		return beyond(name, Missing, fmt.Sprintf("%s is Python %s; %d.%d or newer is needed", rootfs.Python, version, oldestPythonMajor, oldestPythonMinor),
			"a distribution has one python3; a newer release of it has a newer one")
	}
	if err != nil {
		return missing(name, fmt.Sprintf("Python %s lacks modules of its own library: %v", version, err), h.install("python3"))
	}
	return good(name, fmt.Sprintf("%s is Python %s", rootfs.Python, version))
}
