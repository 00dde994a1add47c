import mmap

MEMORY = mmap.mmap(-1, 4096)
