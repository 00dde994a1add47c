# id: A3
# title: new namespaces, and those of others
# attempts: unshare, unshare and the rest, clone, clone3, setns, setns of pid 1
# outside

NEWUSER, NEWNS, ALL = 0x10000000, 0x00020000, 0x7E020000

def child_of(make):
    """Makes a child by hand; it ends at once."""
    pid = make()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "child %d" % pid

def clone3():
    arguments = (ctypes.c_uint64 * 8)(NEWUSER | NEWNS, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return child_of(lambda: syscall("clone3", ctypes.byref(arguments), ctypes.sizeof(arguments)))

def join(pid):
    fd = os.open("/proc/%s/ns/user" % pid, os.O_RDONLY)
    try:
        return syscall("setns", fd, 0)
    finally:
        os.close(fd)

attempt("unshare", lambda: in_child(lambda: syscall("unshare", NEWUSER)))
attempt("unshare and the rest", lambda: in_child(lambda: syscall("unshare", ALL)))
attempt("clone", lambda: child_of(lambda: syscall("clone", NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)))
attempt("clone3", clone3)
# One's own is refused with EINVAL by a kernel that was asked.
attempt("setns", lambda: join("self"))
attempt("setns of pid 1", lambda: join(1), REFUSED + (errno.EACCES,))
