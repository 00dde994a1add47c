package container

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/thread"
)

// A place is a directory that each call gets afresh.
type place struct {
	path  string
	bytes int64
	mode  int
}

func (c *Container) places() []place {
	l := c.spec.Limits
	bytes := map[string]int64{"/work": l.WorkBytes, "/tmp": l.TmpBytes, "/dev/shm": l.ShmBytes}
	modes := map[string]int{"/work": 0o755, "/tmp": 0o1777, "/dev/shm": 0o1777}
	var all []place
	for _, p := range rootfs.Places {
		all = append(all, place{p, bytes[p], modes[p]})
	}
	return all
}

// Refresh implements sandbox.Container. All the new directories are made first
// and then put into place in one visit to the sandbox. What was in the old ones
// is let go by the kernel; no hostile tree is walked.
func (c *Container) Refresh(context.Context) error {
	places := c.places()
	dirs := make([]*os.File, len(places))
	defer func() {
		for _, d := range dirs {
			_ = d.Close() // also of none
		}
	}()
	for i, p := range places {
		fd, err := c.tmpfs(p)
		if err != nil {
			return fmt.Errorf("make %s: %w", p.path, err)
		}
		dirs[i] = os.NewFile(uintptr(fd), p.path)
	}
	err := c.inNamespaces(unix.CLONE_NEWNS|unix.CLONE_NEWIPC, func() error {
		removeSystemV()
		for i, p := range places {
			// EINVAL: not mounted yet.
			if err := unix.Unmount(p.path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL {
				return fmt.Errorf("take %s off: %w", p.path, err)
			}
			if err := unix.MoveMount(int(dirs[i].Fd()), "", unix.AT_FDCWD, p.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fmt.Errorf("mount %s: %w", p.path, err)
			}
		}
		return nil
	})
	if err == nil && c.watcher != nil {
		c.watcher.Rest(dirs)
		dirs = nil
	}
	return err
}

// tmpfs returns a new one, mounted nowhere yet.
func (c *Container) tmpfs(p place) (int, error) {
	p, attributes := loosenPlace(p, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	owner := strconv.Itoa(c.ids.agent())
	for _, o := range [][2]string{
		{"source", "sandbox"},
		{"size", strconv.FormatInt(p.bytes, 10)},
		{"nr_inodes", "200000"},
		{"mode", strconv.FormatInt(int64(p.mode), 8)},
		{"uid", owner},
		{"gid", owner},
	} {
		if err := unix.FsconfigSetString(ctx, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("set %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, err
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, err
	}
	if p.path == "/tmp" {
		if err := unix.Mkdirat(fd, "home", 0o755); err != nil {
			unix.Close(fd)
			return -1, err
		}
		if err := unix.Fchownat(fd, "home", c.ids.agent(), c.ids.agent(), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// removeSystemV removes the System V objects of the calling thread's IPC
// namespace (sysvipc(7)); /proc/sysvipc shows those of its reader.
func removeSystemV() {
	kinds := []struct {
		name   string
		remove func(id int)
	}{
		{"shm", func(id int) { _, _, _ = unix.Syscall(unix.SYS_SHMCTL, uintptr(id), unix.IPC_RMID, 0) }},
		{"sem", func(id int) { _, _, _ = unix.Syscall6(unix.SYS_SEMCTL, uintptr(id), 0, unix.IPC_RMID, 0, 0, 0) }},
		{"msg", func(id int) { _, _, _ = unix.Syscall(unix.SYS_MSGCTL, uintptr(id), unix.IPC_RMID, 0) }},
	}
	for _, k := range kinds {
		text, err := os.ReadFile("/proc/sysvipc/" + k.name)
		if err != nil {
			continue // the kernel has none of that kind
		}
		lines := strings.Split(string(text), "\n")
		for _, line := range lines[1:] {
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			if id, err := strconv.Atoi(f[1]); err == nil {
				k.remove(id)
			}
		}
	}
}

// inNamespaces runs f on a thread that has joined kinds of the sandbox's
// namespaces. The thread ends with it: it must never run anything else.
func (c *Container) inNamespaces(kinds int, f func() error) error {
	self, err := c.self.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = self.Control(func(pidfd uintptr) {
		ferr = thread.Run(func() error { return join(int(pidfd), kinds, f) })
	})
	if err != nil {
		return fmt.Errorf("use the sandbox's first process: %w", err)
	}
	return ferr
}

// join lets the calling thread join the namespaces, and runs f.
func join(pidfd, kinds int, f func() error) error {
	// A thread that shares its root directory with others may not change its
	// mount namespace (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the shared root directory: %w", err)
	}
	if err := unix.Setns(pidfd, kinds); err != nil {
		return fmt.Errorf("enter the sandbox's namespaces: %w", err)
	}
	return f()
}
