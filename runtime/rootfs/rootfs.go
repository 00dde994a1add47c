// Package rootfs makes the read-only root filesystem of an image. It runs in
// the shim's private mount namespace, so that no mount of it is ever seen by
// the host and all of them are gone with the shim.
package rootfs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
)

// Python is the interpreter of every image, as the sandbox sees it.
const Python = "/usr/bin/python3"

// Places are the directories that a sandbox gets afresh for each call; they are
// mount points in every root filesystem.
var Places = []string{"/work", "/tmp", "/dev/shm"}

// A File is a file of ours in a root filesystem.
type File struct {
	Name string // absolute, as the sandbox sees it
	Data []byte
	Mode os.FileMode
}

// Options say what an image is made of besides the image itself.
type Options struct {
	// Hide lists patterns (path.Match) of names below /usr that are left out.
	Hide []string
	// Files are added to the root filesystem.
	Files []File
}

// Host makes the root filesystem of the image "host" at dir, an existing empty
// directory: the host's /usr, read-only, with an /etc made for the purpose.
// Nothing of /home, /root, /opt, /var or /run is in it.
// After an error dir may hold mounts; the caller's mount namespace ends with
// the caller.
func Host(dir string, opts Options) error {
	if _, err := os.Stat(Python); err != nil {
		return fault.Wrap(fault.Unavailable, err, "this host has no %s; install it: apt-get install python3", Python)
	}
	if err := unix.Mount("rootfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m,nr_inodes=65536"); err != nil {
		return fmt.Errorf("mount tmpfs for the root filesystem: %w", err)
	}
	b := &builder{dir: dir}
	b.skeleton()
	b.usr()
	b.hide(append(HiddenByDefault(), opts.Hide...))
	b.devices()
	b.etc()
	for _, f := range opts.Files {
		b.write(f.Name, f.Data, f.Mode)
	}
	if b.err != nil {
		return fmt.Errorf("make root filesystem: %w", b.err)
	}
	return nil
}

// A builder keeps the first error, so that the steps read as a list.
type builder struct {
	dir string
	err error
}

// in returns the path of name, as the sandbox sees it, below dir.
func (b *builder) in(name string) string { return filepath.Join(b.dir, path.Clean("/"+name)) }

func (b *builder) try(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) mkdir(name string, mode os.FileMode) {
	if b.err != nil {
		return
	}
	b.try(os.MkdirAll(b.in(name), mode))
}

func (b *builder) write(name string, data []byte, mode os.FileMode) {
	b.mkdir(path.Dir(name), 0o755)
	if b.err != nil {
		return
	}
	b.try(os.WriteFile(b.in(name), data, mode))
}

func (b *builder) symlink(target, name string) {
	if b.err != nil {
		return
	}
	b.try(os.Symlink(target, b.in(name)))
}

// bind mounts source at name, with the given attributes on all of it.
func (b *builder) bind(source, name string, attr uint64) {
	if b.err != nil {
		return
	}
	b.try(bind(source, b.in(name), attr))
}

func bind(source, target string, attr uint64) error {
	// Recursively, because a mount that came from a more privileged namespace
	// may not be cloned without the mounts that cover parts of it.
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("clone the mount of %s: %w", source, err)
	}
	defer unix.Close(fd)
	set := &unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, set); err != nil {
		return fmt.Errorf("set attributes of the mount of %s: %w", source, err)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", source, err)
	}
	return nil
}

// skeleton makes the directories and the links to the workspace.
func (b *builder) skeleton() {
	for _, d := range []string{
		"/usr", "/proc", "/dev", "/etc", "/work", "/tmp", "/root", "/home", "/opt", "/mnt",
		"/run", "/srv", "/sys", "/var/lib", "/var/log", "/var/cache",
	} {
		b.mkdir(d, 0o755)
	}
	b.symlink("../tmp", "/var/tmp")
	b.symlink("/work/workspace", "/workspace")
	b.symlink("/work/workspace", "/mnt/data")
	b.mkdir("/.hidden/folder", 0o555)
	b.write("/.hidden/file", nil, 0o444)
}

// usr mounts the host's /usr and makes /bin, /lib and the like lead where they
// lead on the host.
func (b *builder) usr() {
	const attr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	b.bind("/usr", "/usr", attr)
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		fi, err := os.Lstat(name)
		switch {
		case err != nil:
		case fi.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			b.try(err)
			b.symlink(target, name)
		case fi.IsDir():
			b.mkdir(name, 0o755)
			b.bind(name, name, attr)
		}
	}
}

// devices binds the few devices that programs need. The directory is on the
// read-only root, so that nothing in it can be replaced.
func (b *builder) devices() {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		b.write("/dev/"+name, nil, 0o644)
		b.bind("/dev/"+name, "/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	}
	b.symlink("/proc/self/fd", "/dev/fd")
	b.symlink("/proc/self/fd/0", "/dev/stdin")
	b.symlink("/proc/self/fd/1", "/dev/stdout")
	b.symlink("/proc/self/fd/2", "/dev/stderr")
	b.mkdir("/dev/shm", 0o755)
}
