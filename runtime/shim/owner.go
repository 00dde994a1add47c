package shim

import (
	"fmt"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/thread"
)

// asOwner runs f on a thread whose effective user is uid, with all the
// capabilities that it had. A user namespace belongs to the effective user who
// makes it, and the kernel counts for that user what is used inside, up to the
// user's limits (user_namespaces(7), inotify(7)): those are not to be root's,
// whose other services need theirs. The thread ends with f.
// Preconditions: this process is root.
func asOwner(uid int, f func() error) error {
	return thread.Run(func() error {
		if err := becomeOwner(uid); err != nil {
			return fmt.Errorf("become the owner of the shim's namespaces: %w", err)
		}
		return f()
	})
}

// becomeOwner sets the effective user of the calling thread.
func becomeOwner(uid int) error {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&header, &had[0]); err != nil {
		return err
	}
	// The call itself and not the library's, which sets it for all threads.
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return errno
	}
	// The change took the effective capabilities and kept the permitted ones
	// (capabilities(7)), and made the process one that cannot be dumped.
	if err := unix.Capset(&header, &had[0]); err != nil {
		return err
	}
	if dumpable != 1 {
		return nil
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}
