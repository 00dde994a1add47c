# id: C2
# title: System V shared memory that nobody is attached to
# attempts: shm
# ends: exit 0 or out of memory
# load

libc.shmat.restype = ctypes.c_void_p
def more(n):
    segment = libc.shmget(0, n, 0o1600)
    if segment < 0:
        raise OSError(ctypes.get_errno(), "")
    address = libc.shmat(segment, None, 0)
    if address in (None, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "")
    ctypes.memset(address, 1, n)
    libc.shmdt(ctypes.c_void_p(address))
take_memory("shm", more)
