package audit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/cmd/internal/audit"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
	"cloche.dev/cloche/tools/mcpclient"
)

// TestMain lets nobody else write what tests write: such a configuration is
// refused.
func TestMain(m *testing.M) {
	unix.Umask(0o022)
	os.Exit(m.Run())
}

// config makes sandboxes that are small, so that what takes all it can get is
// soon at an end.
const config = `
[sandbox]
preload = []
memory = "128 MB"
work = "32 MB"
tmp = "32 MB"
shm = "16 MB"
pids = 64
cpus = 0.5
[server]
stop_grace = "0s"
`

// limits are those of config, with control groups or without.
func limits(groups bool) audit.Limits {
	l := audit.Limits{MemoryBytes: 128_000_000, PIDs: 64}
	if groups {
		l.CPUs, l.Kernel = 0.5, true
	}
	return l
}

// A server is a running cloche stdio with a client.
type server struct {
	client *mcpclient.Client
	pid    int
	log    *mcpclient.Log
}

// serve starts the program cloche. It ends with the test, and must end well.
func serve(t *testing.T, cloche string) *server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{log: new(mcpclient.Log)}
	client, err := mcpclient.Start(t.Context(), mcpclient.Command{
		Path: cloche, Args: []string{"stdio", "--config", file, "--data-dir", filepath.Join(dir, "data")},
		Env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "CLOCHE_TEST_TOKEN=a-value-that-stays-with-the-server"}, Stderr: s.log,
	})
	if err != nil {
		t.Fatalf("start the server: %v\n%s", err, s.log)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("end the server: %v\n%s", err, s.log)
		}
	})
	s.client = client
	for _, pid := range sandboxtest.Descendants(os.Getpid()) {
		if name, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err == nil && name == cloche {
			s.pid = pid
		}
	}
	if s.pid == 0 {
		t.Fatalf("no process runs %s", cloche)
	}
	return s
}

// Call implements audit.Caller.
func (s *server) Call(ctx context.Context, conversation, code string, timeout time.Duration) (audit.Answer, error) {
	result, err := s.client.Call(ctx, "code_interpreter", map[string]any{
		"code": code, "conversation": conversation, "timeout_seconds": timeout.Seconds(),
	})
	if err != nil {
		return audit.Answer{}, err
	}
	text := strings.Join(result.Text, "\n")
	if result.IsError {
		return audit.Answer{}, errors.New(text)
	}
	return audit.Decode(text, result.Structured)
}

// audit returns a Runner of probes on the server.
func (s *server) audit(t *testing.T, l audit.Limits) *audit.Runner {
	t.Helper()
	r, err := audit.New(t.Context(), s, l)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	return r
}

// strays returns the processes below the server that are not the first of their
// pid namespace, as the shim and the parent of each sandbox are (proc(5)).
func (s *server) strays() (strays []string) {
	for _, pid := range sandboxtest.Descendants(s.pid) {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue // it ended meanwhile
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "NSpid:" && f[len(f)-1] != "1" && !isTemplate(pid, len(f)-1) {
				strays = append(strays, string(text))
			}
		}
	}
	return strays
}

// isTemplate says whether a process is one that sandboxes are forked from: it is in
// as many pid namespaces as the shim, and so in none of a sandbox.
func isTemplate(pid, namespaces int) bool {
	command, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	const ofShim = 2
	return err == nil && namespaces == ofShim && strings.HasSuffix(string(command), "\x00"+pydriver.TemplateArgument+"\x00")
}

// memory returns the server's present and largest memory in bytes, the latter
// since its last call (proc(5): clear_refs).
func (s *server) memory(t *testing.T) (now, most int64) {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(s.pid)
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) int64 {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == name+":" {
				n, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n << 10
			}
		}
		t.Fatalf("no %s in %s", name, text)
		return 0
	}
	if err := os.WriteFile(dir+"/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return field("VmRSS"), field("VmHWM")
}

// probes returns all.
func probes(t *testing.T) []audit.Probe {
	t.Helper()
	all, err := audit.Probes()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
