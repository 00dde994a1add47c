# id: A4
# title: mounts
# attempts: mount, umount2, pivot_root, chroot, fsopen, open_tree, move_mount, mount_setattr
# outside

# Each is such that a kernel which may do it finds something wrong with it, or
# changes nothing.
import tempfile

folder = tempfile.mkdtemp()
name = folder.encode()
attempt("mount", lambda: syscall("mount", b"none", name, b"no-such-fs", 0, 0))
attempt("umount2", lambda: syscall("umount2", name, 0))
attempt("pivot_root", lambda: syscall("pivot_root", name, name))
attempt("chroot", lambda: in_child(lambda: syscall("chroot", name)))
attempt("fsopen", lambda: syscall("fsopen", b"no-such-fs", 0))
attempt("open_tree", lambda: syscall("open_tree", -100, name, 1))
attempt("move_mount", lambda: syscall("move_mount", -1, b"", -1, b"", 0))
attempt("mount_setattr", lambda: syscall("mount_setattr", -100, name, 0, ctypes.byref((ctypes.c_uint64 * 4)()), 32))
os.rmdir(folder)
