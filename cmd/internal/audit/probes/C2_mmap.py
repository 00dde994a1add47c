# id: C2
# title: memory that processes would share
# attempts: mmap
# ends: exit 0 or out of memory
# load

held = []
def more(n):
    area = mmap.mmap(-1, n)
    touch(area)
    held.append(area)
take_memory("mmap", more)
