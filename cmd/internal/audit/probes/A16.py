# id: A16
# title: devices
# attempts: mknod of a character device, mknod of a block device, /dev/mem, /dev/kvm, /dev/fuse, disks, /dev/net/tun, loop control, others
# outside

def node(kind, device):
    name = "/tmp/cloche-audit-device-%d" % os.getpid()
    os.mknod(name, kind | 0o600, device)
    os.remove(name)

attempt("mknod of a character device", lambda: node(stat.S_IFCHR, os.makedev(1, 1)))
attempt("mknod of a block device", lambda: node(stat.S_IFBLK, os.makedev(7, 0)))

def opened(*paths):
    "opens the first that is there; that alone does nothing to any of them"
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except FileNotFoundError:
            continue
        return path
    raise FileNotFoundError(errno.ENOENT, "")

attempt("/dev/mem", lambda: opened("/dev/mem", "/dev/port", "/dev/kmem"), HIDDEN)
attempt("/dev/kvm", lambda: opened("/dev/kvm"), HIDDEN)
attempt("/dev/fuse", lambda: opened("/dev/fuse"), HIDDEN)
attempt("disks", lambda: opened("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/xvda", "/dev/dm-0", "/dev/loop0", "/dev/zram0"), HIDDEN)
attempt("/dev/net/tun", lambda: opened("/dev/net/tun"), HIDDEN)
attempt("loop control", lambda: opened("/dev/loop-control"), HIDDEN)

harmless = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)}  # null zero full random urandom tty
found = []
for folder, _, files in os.walk("/dev"):
    for name in files:
        there = os.lstat(os.path.join(folder, name))
        device = os.major(there.st_rdev), os.minor(there.st_rdev)
        if stat.S_ISBLK(there.st_mode) or stat.S_ISCHR(there.st_mode) and device not in harmless:
            found.append(os.path.join(folder, name))
judge("others", not found, "%d: %s" % (len(found), found[:6]))
