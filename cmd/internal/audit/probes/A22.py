# id: A22
# title: a filter of its own in front of ours
# attempts: seccomp, listener, filter on top, mode 0, no_new_privs off
# outside

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
allow = (ctypes.c_uint64 * 1)(0x7FFF000000000006)  # ret ALLOW
program = Program(1, ctypes.addressof(allow))
FILTER, NEW_LISTENER = 1, 8
SET_SECCOMP, SET_NO_NEW_PRIVS = 22, 38

def prctl(*arguments):
    if libc.prctl(*(ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments), 0, 0) == -1:
        raise OSError(ctypes.get_errno(), "")

def own(flags):
    prctl(SET_NO_NEW_PRIVS, 1, 0)
    syscall("seccomp", FILTER, flags, ctypes.byref(program))

def on_top():
    "puts a filter that allows everything on top, and does what ours refuses"
    prctl(SET_NO_NEW_PRIVS, 1, 0)
    prctl(SET_SECCOMP, 2, ctypes.byref(program))
    syscall("unshare", 0)  # of nothing, which the kernel allows

attempt("seccomp", lambda: in_child(lambda: own(0)))
attempt("listener", lambda: in_child(lambda: own(NEW_LISTENER)))
attempt("filter on top", lambda: in_child(on_top))

def state(*arguments):
    try:
        prctl(*arguments)
    except OSError:
        pass
    have = status_of()
    if have["Seccomp"] == "2" and have["NoNewPrivs"] == "1":
        raise OSError(errno.EPERM, "")

attempt("mode 0", lambda: in_child(lambda: state(SET_SECCOMP, 0, 0)))
attempt("no_new_privs off", lambda: in_child(lambda: state(SET_NO_NEW_PRIVS, 0, 0)))
