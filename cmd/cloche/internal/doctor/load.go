package doctor

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/seccomp"
)

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
