# id: A18
# title: descriptors that lead out
# attempts: descriptors, folders behind them, working directory

def kind(fd):
    try:
        os.fstat(fd)
    except OSError:
        return None
    return os.readlink("/proc/self/fd/%d" % fd)

held = {fd: kind(fd) for fd in range(1 << 12) if kind(fd)}
more = {fd: k for fd, k in held.items() if fd > 2}
judge("descriptors", not more and held.get(0) == "/dev/null", "besides standard ones: %s" % more)

def up(path):
    "whether one gets above this root by that path, and what is there"
    top = os.stat("/")
    for steps in range(1, 12):
        above = path + "/.." * steps
        try:
            there = os.stat(above)
        except OSError as e:
            if e.errno in HIDDEN + (errno.ENOTDIR,):
                return None
            return name_of(e)
        if (there.st_dev, there.st_ino) == (top.st_dev, top.st_ino):
            return None
    return "%s has %s" % (above, os.listdir(above)[:6])

ways = {fd: up("/proc/self/fd/%d" % fd) for fd in held}
found = {fd: way for fd, way in ways.items() if way}
judge("folders behind them", not found, "of %s: %s" % (sorted(held), found))
found = [way for way in map(up, ("/proc/self/cwd", "/proc/self/root", ".")) if way]
try:
    here = os.getcwd()
except OSError as e:  # it is outside of this root
    here = name_of(e)
judge("working directory", here == "/work" and not found, "%s, above it: %s" % (here, found))
