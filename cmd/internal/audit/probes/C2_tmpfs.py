# id: C2
# title: files in every place that can be written
# attempts: tmpfs
# ends: exit 0 or out of memory
# load

piece = b"x" * (1 << 20)
places, files = ["/work", "/tmp", "/dev/shm"], []
def more(n):
    while places:
        try:
            with open("%s/%d" % (places[0], len(files)), "wb", buffering=0) as f:
                files.append(f.name)
                for _ in range(n // len(piece)):
                    f.write(piece)
            return
        except OSError as e:
            if e.errno not in (errno.ENOSPC, errno.EFBIG):
                raise
            places.pop(0)
    raise OSError(errno.ENOSPC, "")
take_memory("tmpfs", more)
