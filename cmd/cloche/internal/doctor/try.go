package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What is tried besides the kinds of namespaces, which are called as in
// /proc/PID/ns.
const (
	stepNested  = "user within user"
	stepProc    = "proc"
	stepTmpfs   = "tmpfs"
	stepOverlay = "overlay"         // on memory
	stepData    = "overlay on disk" // on the file system of the data directory
	stepSeccomp = "seccomp"
)

// A kind is one of namespaces.
type kind struct {
	name string
	flag uintptr
}

// The kinds that the shim has, and those that each sandbox has: a user
// namespace below the shim's, and one of each other kind.
var (
	kindsOfShim    = []kind{{"user", unix.CLONE_NEWUSER}, {"mnt", unix.CLONE_NEWNS}, {"pid", unix.CLONE_NEWPID}}
	kindsOfSandbox = []kind{
		{stepNested, unix.CLONE_NEWUSER},
		{"mnt", unix.CLONE_NEWNS},
		{"pid", unix.CLONE_NEWPID},
		{"net", unix.CLONE_NEWNET},
		{"ipc", unix.CLONE_NEWIPC},
		{"uts", unix.CLONE_NEWUTS},
		{"cgroup", unix.CLONE_NEWCGROUP},
	}
)

// tryTimeout bounds each process that tries.
const tryTimeout = 10 * time.Second

// A trial is what came of each step that was tried: 0 if it works, else the
// kernel's answer.
type trial map[string]syscall.Errno

// tried returns what came of a step, and whether it was tried.
func (t trial) tried(step string) (code syscall.Errno, tried bool) {
	code, tried = t[step]
	return code, tried
}

// The process that tries is this program with that name and a word for what it
// is to try.
const (
	tryName    = "cloche-try"
	tryNothing = "nothing" // being there is all
	tryShim    = "shim"    // what a shim does
	tryMounts  = "mounts"  // overlays with the power of root
)

// Init tries, in a process that was started for it, and ends it; in any other it
// does nothing. It is the first thing that a program does that calls Look: else
// each process that is started to try would do what the program does.
func Init() {
	if os.Args[0] != tryName {
		ready = true
		return
	}
	t := trial{}
	switch {
	case len(os.Args) != 3 || os.Args[1] != tryNothing && os.Getpid() != 1:
		// Whoever mounts is the first of a pid namespace, and so apart from the host.
		os.Exit(2)
	case os.Args[1] == tryShim:
		t.asShim(os.Args[2])
	case os.Args[1] == tryMounts:
		t.overlays(os.Args[2], "redirect_dir=on,index=off,metacopy=off,")
	}
	if err := json.NewEncoder(os.Stdout).Encode(t); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// ready says that this program, started to try, does so.
var ready bool

// try makes namespaces like those of a shim and of a sandbox, and does in them
// what these do. Overlays are also tried on the file system of the directory
// data, if it is not "".
func try(ctx context.Context, data string) (trial, error) {
	if !ready {
		return nil, errors.New("this program does not call Init")
	}
	dir, none := scratch(data)
	if dir != "" {
		defer os.RemoveAll(dir)
	}
	t, err := child(ctx, all(kindsOfShim), tryShim, dir)
	if code, ok := errors.AsType[syscall.Errno](err); ok {
		t = trial{}
		t.blame(ctx, kindsOfShim, code)
		return t, nil
	}
	if err == nil && os.Getuid() == 0 && ofTheHost() {
		err = t.asRoot(ctx, dir)
	}
	if err == nil && none != nil {
		t[stepData] = code(none)
	}
	return t, err
}

// asRoot mounts overlays as the server itself does if it is root.
func (t trial) asRoot(ctx context.Context, dir string) error {
	mounts, err := child(ctx, unix.CLONE_NEWNS|unix.CLONE_NEWPID, tryMounts, dir)
	if code, ok := errors.AsType[syscall.Errno](err); ok {
		mounts, err = trial{stepOverlay: code}, nil
	}
	for _, step := range []string{stepOverlay, stepData} {
		if code, tried := mounts.tried(step); tried {
			t[step] = code
		}
	}
	return err
}

// scratch makes what overlays on the file system of data are made of, in a
// directory that is the caller's to remove; "" for "" and after an error.
func scratch(data string) (string, error) {
	if data == "" {
		return "", nil
	}
	dir, err := os.MkdirTemp(data, "doctor-")
	if err != nil {
		return "", err
	}
	if err := layers(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// layers makes the directories of an overlay in dir.
func layers(dir string) error {
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// child starts the process that tries, in namespaces of those kinds, and returns
// what it found. That it could not be started is a syscall.Errno.
func child(ctx context.Context, flags uintptr, what, dir string) (trial, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := &exec.Cmd{WaitDelay: time.Second, Path: "/proc/self/exe", Args: []string{tryName, what, dir}, Env: []string{}, Stdout: &out, Stderr: &said}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		if code, ok := errors.AsType[syscall.Errno](err); ok {
			return nil, code
		}
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("try namespaces: %w %s", errors.Join(err, context.Cause(ctx)), bytes.TrimSpace(said.Bytes()))
	}
	t := trial{}
	if err := json.Unmarshal(out.Bytes(), &t); err != nil {
		return nil, fmt.Errorf("read what was tried: %w", err)
	}
	return t, nil
}

// all returns the flags of all kinds.
func all(kinds []kind) (flags uintptr) {
	for _, k := range kinds {
		flags |= k.flag
	}
	return flags
}

// blame finds out which of kinds the kernel refuses, after it has refused them
// together with code: each is made once more, in a user namespace.
func (t trial) blame(ctx context.Context, kinds []kind, code syscall.Errno) {
	for _, k := range kinds {
		_, err := child(ctx, unix.CLONE_NEWUSER|k.flag, tryNothing, "")
		if refused, ok := errors.AsType[syscall.Errno](err); ok {
			t[k.name] = refused
			return
		}
		if _, before := t[k.name]; !before {
			t[k.name] = 0
		}
	}
	t[kinds[0].name] = code // each alone can be made, all of them cannot
}

// ofTheHost says whether this process is in the host's own user namespace, the
// one in which all ids are.
func ofTheHost() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && allIDs(string(text))
}

// allIDs says whether a map (user_namespaces(7)) leads each id to itself.
func allIDs(idMap string) bool {
	f := strings.Fields(idMap)
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}
