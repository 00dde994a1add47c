# id: C2
# title: files in memory without a name
# attempts: memfd
# ends: exit 0 or out of memory
# load

held = []
piece = b"x" * (1 << 20)
def more(n):
    fd = os.memfd_create("m")
    held.append(fd)
    for _ in range(n // len(piece)):
        os.write(fd, piece)
take_memory("memfd", more)
