# id: C2
# title: memory that cannot be taken back
# attempts: MAP_HUGETLB, SHM_HUGETLB, mlock, MAP_LOCKED
# seconds: 5

HUGE, LOCKED = 0x40000, 0x2000
NO = (errno.ENOMEM, errno.EPERM, errno.EAGAIN, errno.ENOSYS, errno.EINVAL)
size = 4 << 20

def mapped(flags):
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
    area.close()

def lock():
    area = mmap.mmap(-1, size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    syscall("mlock", start, size)

attempt("MAP_HUGETLB", lambda: mapped(HUGE), NO)
attempt("SHM_HUGETLB", lambda: syscall("shmget", 0, size, 0o4000 | 0o1600), NO)
attempt("mlock", lambda: in_child(lock), NO)
attempt("MAP_LOCKED", lambda: mapped(LOCKED), NO)
