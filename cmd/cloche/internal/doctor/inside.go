package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/seccomp"
)

// passed says that kinds can be made.
func (t trial) passed(kinds []kind) {
	for _, k := range kinds {
		t[k.name] = 0
	}
}

// asShim does what a shim does: it mounts, starts a process in namespaces like a
// sandbox's, and loads the filter.
// Preconditions: this process is the first of namespaces of its own.
func (t trial) asShim(dir string) {
	t.passed(kindsOfShim)
	// In sequence, since each needs the ones before it.
	t[stepProc] = code(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if t[stepProc] == 0 {
		t[stepProc] = code(unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	}
	if t[stepProc] != 0 {
		return
	}
	t.overlays(dir, "userxattr,")
	_, err := child(context.Background(), all(kindsOfSandbox), tryNothing, "")
	if refused, ok := errors.AsType[syscall.Errno](err); ok {
		t.blame(context.Background(), kindsOfSandbox, refused)
	} else {
		t.passed(kindsOfSandbox)
	}
	t[stepSeccomp] = load()
}

// overlays mounts one on the layers in dir, unless that is "", and one on memory.
// Preconditions: this process is the first of namespaces of its own.
func (t trial) overlays(dir, options string) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t[stepOverlay] = code(err)
		return
	}
	if dir != "" {
		t[stepData] = overlayAt(dir, options)
	}
	const memory = "/run" // which a shim covers too
	t[stepTmpfs] = code(unix.Mount("try", memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0711"))
	if t[stepTmpfs] != 0 {
		return
	}
	if err := layers(memory); err != nil {
		t[stepTmpfs] = code(err)
		return
	}
	t[stepOverlay] = overlayAt(memory, options)
}

// overlayAt mounts an overlay on the layers in dir, and makes a file in it.
func overlayAt(dir, options string) syscall.Errno {
	// Relative names hold whatever characters dir has.
	if err := os.Chdir(dir); err != nil {
		return code(err)
	}
	if err := unix.Mount("overlay", "merged", "overlay", unix.MS_NOSUID|unix.MS_NODEV, options+"lowerdir=lower,upperdir=upper,workdir=work"); err != nil {
		return code(err)
	}
	err := os.WriteFile(filepath.Join("merged", "file"), nil, 0o600)
	return code(errors.Join(err, unix.Unmount("merged", unix.MNT_DETACH), os.Chdir("/")))
}

// code returns the kernel's answer in err, 0 for nil.
func code(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return unix.EIO
}

// load loads the filter of system calls for this thread, for good.
// Preconditions: this process ends soon.
func load() syscall.Errno {
	program, err := seccomp.Program()
	if err != nil || len(program) == 0 {
		return unix.ENOSYS
	}
	instructions := make([]unix.SockFilter, len(program)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&instructions[0])), len(program)), program)
	prog := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	runtime.LockOSThread() // no other thread is to go on under the filter
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return code(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	if mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || mode != unix.SECCOMP_MODE_FILTER {
		return unix.ENOSYS
	}
	return 0
}
