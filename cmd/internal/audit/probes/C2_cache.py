# id: C2
# title: page cache of files that it reads
# attempts: page cache
# load

# What it reads is the sandbox's to keep, and is given up when room is needed: it
# neither ends the call nor grows past the limit.
null, done = os.open("/dev/null", os.O_WRONLY), 0
for folder, _, names in os.walk("/usr/lib"):
    for name in names:
        path = os.path.join(folder, name)
        if done > 2 * LIMITS["memory"] or os.path.islink(path):
            continue
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        while n := os.sendfile(null, fd, None, 1 << 24):
            done += n
        os.close(fd)
held = bytearray(b"x") * (LIMITS["memory"] // 2)
blocked("page cache", "read %d MB, then held %d MB" % (done // 10**6, len(held) // 10**6))
