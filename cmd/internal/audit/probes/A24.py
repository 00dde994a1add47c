# id: A24
# title: what tells which host this is
# attempts: host name, kernel version, boot id, MAC, mounts, environment, arguments, machine id
# outside

import glob, socket

def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""

def own_name(text):
    return text.strip() in ("", "sandbox", "(none)")

names = [os.uname().nodename, socket.gethostname(), read("/etc/hostname"), read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/domainname")]
judge("host name", all(map(own_name, names)) and names[0] == "sandbox", names)
# It cannot be hidden; it is to come without the name of the machine and without
# how that was started.
judge("kernel version", os.uname().nodename == "sandbox" and not read("/proc/cmdline"), "%s, command line %r" % (os.uname().release, read("/proc/cmdline")[:60]))
judge("boot id", not read("/proc/sys/kernel/random/boot_id"), "%r" % read("/proc/sys/kernel/random/boot_id"))

interfaces = [name for _, name in socket.if_nameindex()]
addresses = [read(p).strip() for p in glob.glob("/sys/class/net/*/address")]
judge("MAC", interfaces == ["lo"] and not addresses, "interfaces %s, addresses %s" % (interfaces, addresses))

def known(root, point, kind):
    "a mount whose root tells nothing: it is the whole, or has the same name inside"
    return (root in ("/", "/null", "/dev", point) or "/dev" + root == point or "/proc" + root == point
            or root.startswith("/.hidden/") or point == "/usr" or kind == "tmpfs" and root.startswith("/root"))
strange = [(root, point) for root, point, _, kind, _ in mounts() if not known(root, point, kind)]
inside = ("/", "/usr", "/proc", "/dev", "/work", "/tmp", "/workspace", "/lib", "/bin", "/sbin", "/mnt")
strange += [(kind, point) for _, point, _, kind, _ in mounts() if point != "/" and not point.startswith(tuple(p + "/" for p in inside[1:])) and point not in inside]
judge("mounts", not strange, "strange: %s" % strange[:4])

expected = """HOME LANG LC_CTYPE LOGNAME MPLBACKEND MPLCONFIGDIR OMP_NUM_THREADS OPENBLAS_NUM_THREADS PATH
    PYTHONDONTWRITEBYTECODE SHELL TERM TMPDIR USER WORKSPACE_DIR""".split()
more = sorted(set(os.environ) - set(expected))
judge("environment", not more, "besides ours: %s" % more)

lines = {p: read(p).replace("\0", " ").strip() for p in glob.glob("/proc/[0-9]*/cmdline")}
parent = "/usr/bin/python3 /.cloche/parent.py"
told = [line for line in lines.values() if line not in ("", parent, parent + " template")]
judge("arguments", not told, "of %d processes: %s" % (len(lines), told[:4]))
judge("machine id", not read("/etc/machine-id") and not read("/var/lib/dbus/machine-id"), "there or not")
