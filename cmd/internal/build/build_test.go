package build

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
	dir, err := scratch(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, dir)
	io.Copy(io.Discard, os.Stdin)
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
	owner.Wait() // says that it was killed
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
