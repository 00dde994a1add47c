# id: C2
# title: memory of the kernel, in tables of pages
# attempts: page tables
# ends: exit 0 or out of memory
# load

# Of a page that all share, seen at one address in each 2 MB: that is a table of
# 4 kB each.
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
NORESERVE, NOHUGEPAGE, STEP = 0x4000, 15, 2 << 20
length = LIMITS["memory"] * 4 // 4096 * STEP
start = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE, -1, 0)
if start in (None, 2**64 - 1):
    blocked("page tables", "no room for %d GB of addresses: %s" % (length >> 30, errno.errorcode[ctypes.get_errno()]))
    sys.exit()
libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), NOHUGEPAGE)
area, at = (ctypes.c_char * length).from_address(start), 0
def more(n):
    global at
    for _ in range(n // 4096):
        area[at]
        at += STEP
take_memory("page tables", more)
