package need

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// scratchVariable makes the test program a process that owns a scratch folder
// and then waits, for TestScratchEndsWithItsProcess.
const scratchVariable = "CLOCHE_TEST_SCRATCH"

func TestMain(m *testing.M) {
	if os.Getenv(scratchVariable) == "" {
		os.Exit(m.Run())
	}
	dir, err := scratch()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, dir)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestScratchEndsWithItsProcess(t *testing.T) {
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), scratchVariable+"=1")
	owner.Stderr = os.Stderr
	stdin, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(line)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o755 {
		t.Errorf("mode of the folder = %v, want %v", got, fs.FileMode(0o755))
	}

	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // says that it was killed
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is still there 10 s after its process was killed", dir)
		}
	}
}

// A fake is a test that remembers how it was ended.
type fake struct {
	testing.TB
	ended string
}

func (*fake) Helper()                     {}
func (*fake) Context() context.Context    { return context.Background() }
func (f *fake) Skip(args ...any)          { f.end("skipped: " + fmt.Sprint(args...)) }
func (f *fake) Fatal(args ...any)         { f.end("failed: " + fmt.Sprint(args...)) }
func (f *fake) Fatalf(s string, a ...any) { f.end("failed: " + fmt.Sprintf(s, a...)) }

// end ends the goroutine, as the methods of a real test do.
func (f *fake) end(how string) {
	f.ended = how
	panic(f)
}

// try returns how what(tb) ended its test, "" if it did not.
func try(what func(tb testing.TB)) string {
	f := &fake{}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		what(f)
	}()
	return f.ended
}

func TestWhatIsNotThere(t *testing.T) {
	Python(t)
	for _, tt := range []struct {
		name string
		ci   string
		want string // what the verdict begins with
	}{{"a developer's machine", "", "skipped: "}, {"CI", "true", "failed: "}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CI", tt.ci)
			got := try(func(tb testing.TB) { Modules(tb, "json", "no_such_module") })
			if !strings.HasPrefix(got, tt.want) || !strings.HasSuffix(got, "no no_such_module") {
				t.Errorf("Modules of one that is not there: %q, want it to begin with %q and to name it", got, tt.want)
			}
			if got := try(func(tb testing.TB) { Modules(tb, "json") }); got != "" {
				t.Errorf("Modules(json): %q, want nothing", got)
			}
		})
	}
}

// TestLong: a long test is skipped unless it is asked for, also where nothing may
// be missing, and says how to run it.
func TestLong(t *testing.T) {
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		t.Setenv(longVariable, "")
		if got, want := try(Long), "skipped: this test takes long; CLOCHE_LONG=true runs it, as .ci/full does"; got != want {
			t.Errorf("Long with CI=%q: %q, want %q", ci, got, want)
		}
		t.Setenv(longVariable, "true")
		if got := try(Long); got != "" {
			t.Errorf("Long where long tests run: %q, want nothing", got)
		}
	}
}

func TestRootIsForRoot(t *testing.T) {
	BothUsers(t, func(t *testing.T) {
		t.Setenv("CI", "")
		got, want := try(Root), ""
		if os.Getuid() != 0 {
			want = "skipped: this test needs root"
		}
		if got != want {
			t.Errorf("Root as user %d: %q, want %q", os.Getuid(), got, want)
		}
	})
}

// TestSecondUser is started for the ordinary user by TestVerdicts.
func TestSecondUser(t *testing.T) {
	what := os.Getenv("CLOCHE_TEST_SECOND")
	if what == "" {
		return
	}
	BothUsers(t, func(t *testing.T) {
		if os.Getuid() == 0 {
			return
		}
		switch what {
		case "fail":
			t.Error("on purpose")
		case "skip":
			t.Skip("on purpose")
		case "die":
			os.Exit(0) // without a word on how the test went
		}
	})
}

func TestVerdicts(t *testing.T) {
	Root(t)
	for _, tt := range []struct{ what, want string }{
		{"pass", "PASS"}, {"fail", "FAIL"}, {"skip", "SKIP"}, {"die", "FAIL"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSecondUser$")
			cmd.Env = append(os.Environ(), "CLOCHE_TEST_SECOND="+tt.what, programsVariable+"="+t.TempDir())
			out, _ := cmd.CombinedOutput() // its failing is one of the answers
			if got := verdict(string(out), "TestSecondUser/ordinary_user"); got != tt.want {
				t.Errorf("verdict = %q, want %q; it said:\n%s", got, tt.want, out)
			}
			if got, want := cmd.ProcessState.Success(), tt.want != "FAIL"; got != want {
				t.Errorf("success = %v, want %v", got, want)
			}
		})
	}
}
