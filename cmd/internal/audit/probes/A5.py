# id: A5
# title: memory and descriptors of other processes
# attempts: ptrace of a child, process_vm_readv of a child, process_vm_writev of a child, pidfd_getfd of a child, kcmp of a child, ptrace of the parent, process_vm_readv of the parent, process_vm_writev of the parent, pidfd_getfd of the parent, kcmp of the parent, memory file of the parent
# outside

PTRACE_SEIZE = 0x4206
buffer = ctypes.create_string_buffer(16)
class Area(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
here = Area(ctypes.addressof(buffer), 16)
nowhere = Area(8, 16)  # where nobody has memory

def seize(pid):
    # A tracer's end lets go of whom it traced, who has not been stopped.
    in_child(lambda: syscall("ptrace", PTRACE_SEIZE, pid, 0, 0))

def descriptor(pid):
    fd = syscall("pidfd_open", pid, 0)
    try:
        os.close(syscall("pidfd_getfd", fd, 0, 0))
    finally:
        os.close(fd)

child = os.fork()
if child == 0:
    signal.pause()
for pid, of in (child, "a child"), (os.getppid(), "the parent"):
    where = here if pid == child else nowhere
    attempt("ptrace of " + of, lambda: seize(pid))
    attempt("process_vm_readv of " + of, lambda: syscall("process_vm_readv", pid, ctypes.byref(here), 1, ctypes.byref(where), 1, 0))
    attempt("process_vm_writev of " + of, lambda: syscall("process_vm_writev", pid, ctypes.byref(here), 1, ctypes.byref(where), 1, 0))
    attempt("pidfd_getfd of " + of, lambda: descriptor(pid))
    attempt("kcmp of " + of, lambda: syscall("kcmp", pid, os.getpid(), 1, 0, 0))
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
attempt("memory file of the parent", lambda: os.close(os.open("/proc/%d/mem" % os.getppid(), os.O_RDONLY)), HIDDEN)
