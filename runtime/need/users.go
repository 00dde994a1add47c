package need

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ordinary is the id of the user that root runs tests as: one that owns
// nothing, below the ids that mean "nobody".
const ordinary = 65533

// BothUsers runs f as root and as an ordinary user, who has a single id and no
// control group. As root the second is this test program once more, started as
// that user, with the same test; if it fails there, or is not there, so does it
// here. An ordinary user runs the second alone. Programs are built for both.
func BothUsers(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Run("ordinary user", f)
		return
	}
	t.Run("root", f)
	t.Run("ordinary user", func(t *testing.T) {
		Shim(t)
		again(t)
	})
}

// again runs the present test in a process of the ordinary user.
func again(t *testing.T) {
	t.Helper()
	program, home, err := forOrdinary()
	if err != nil {
		t.Fatalf("prepare for the ordinary user: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.count=1", "-test.run="+onlyThis(t))
	if end, ok := t.Deadline(); ok {
		const ahead = 5 * time.Second // it shall say where it hangs before we are ended
		cmd.Args = append(cmd.Args, "-test.timeout="+max(time.Second, time.Until(end)-ahead).String())
	}
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, programsVariable+"="+filepath.Dir(program))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout = io.MultiWriter(&said, t.Output())
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	switch verdict := verdict(said.String(), t.Name()); {
	case err != nil:
		t.Errorf("as user %d: %v", ordinary, err)
	case verdict == "SKIP":
		t.Skip("it was skipped there")
	case verdict != "PASS":
		t.Errorf("as user %d no test was run", ordinary)
	}
}

// verdict returns what go test said of the test name in its output: PASS, FAIL,
// SKIP, or "" if nothing.
func verdict(output, name string) string {
	m := regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): ` + regexp.QuoteMeta(name) + ` `).FindStringSubmatch(output)
	if m == nil {
		return ""
	}
	return m[1]
}

// onlyThis is the pattern of -test.run for t, with what the present pattern
// says of the tests below it.
func onlyThis(t *testing.T) string {
	var parts []string
	for name := range strings.SplitSeq(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(name)+"$")
	}
	if f := flag.Lookup("test.run"); f != nil && !strings.ContainsAny(f.Value.String(), "[|(") {
		if given := strings.Split(f.Value.String(), "/"); len(given) > len(parts) {
			parts = append(parts, given[len(parts):]...)
		}
	}
	return strings.Join(parts, "/")
}

// forOrdinary copies this test program to where the ordinary user can run it,
// beside the other programs, and makes a folder that is the user's own.
func forOrdinary() (program, home string, err error) {
	if program, err = copied(); err != nil {
		return "", "", err
	}
	home, err = os.MkdirTemp(filepath.Dir(program), "home-")
	if err != nil {
		return "", "", err
	}
	return program, home, os.Chown(home, ordinary, ordinary)
}

var copied = sync.OnceValues(func() (string, error) {
	dir, err := scratch()
	if err != nil {
		return "", err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	to := filepath.Join(dir, "ordinary.test")
	if err := os.WriteFile(to, self, 0o755); err != nil {
		return "", err
	}
	return to, os.Chmod(to, 0o755) // whatever the umask is
})
