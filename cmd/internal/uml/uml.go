// Package uml boots a kernel of another kind for a test: user-mode Linux, a
// program of Debian's that is a kernel with control groups of version 2. It
// needs no privileges; what runs in it has the rights of the user who boots it,
// and sees this machine's files, read-only.
package uml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kernel is the program, as Debian names it.
const kernel = "linux.uml"

// Need skips the test where there is no such kernel; in CI that fails it.
func Need(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath(kernel); err != nil {
		const reason = "no user-mode Linux here; install it: apt-get install user-mode-linux busybox-static"
		if os.Getenv("CI") == "true" {
			tb.Fatal(reason)
		}
		tb.Skip(reason)
	}
}

// Run boots the kernel with memory bytes such as "1500M", has it run script with
// sh, as its root, with /proc, /sys, a tmpfs on /run and control groups of
// version 2 on /sys/fs/cgroup, and returns what the script wrote. It fails the
// test if the script does not come to its end within limit.
func Run(tb testing.TB, script, memory string, limit time.Duration) string {
	tb.Helper()
	dir := tb.TempDir()
	init := filepath.Join(dir, "init.sh")
	if err := os.WriteFile(init, []byte(prologue+script+epilogue), 0o755); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(tb.Context(), limit, errors.New("the script did not end"))
	defer cancel()
	cmd := exec.CommandContext(ctx, kernel, "mem="+memory, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"quiet", "loglevel=1", "con=null", "con0=null,fd:1", "umid=cloche-"+filepath.Base(filepath.Dir(dir)), "init="+init)
	// The kernel keeps its memory in a file there, and its control socket.
	cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm", "HOME="+dir)
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), "\r\n", "\n")
	if err != nil || !strings.Contains(text, endMark) {
		tb.Fatalf("user-mode Linux: %v %v; it said:\n%s", err, context.Cause(ctx), text)
	}
	return text
}

const endMark = "uml: the script has ended"

const prologue = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /run
`

var epilogue = fmt.Sprintf("\necho %q\nbusybox poweroff -f\n", endMark)
