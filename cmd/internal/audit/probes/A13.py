# id: A13
# title: settings of the kernel
# attempts: core_pattern, modprobe, sysrq-trigger, vm, read-only
# outside

# Opened for writing and closed: nothing is ever written.
def opened(path):
    os.close(os.open(path, os.O_WRONLY))

attempt("core_pattern", lambda: opened("/proc/sys/kernel/core_pattern"), READ_ONLY)
attempt("modprobe", lambda: opened("/proc/sys/kernel/modprobe"), READ_ONLY)
attempt("sysrq-trigger", lambda: opened("/proc/sysrq-trigger"), READ_ONLY)
could, tried = [], 0
for name in sorted(os.listdir("/proc/sys/vm")):
    tried += 1
    try:
        opened("/proc/sys/vm/" + name)
    except OSError as e:
        if e.errno not in READ_ONLY:
            could.append("%s: %s" % (name, name_of(e)))
    else:
        could.append(name)
judge("vm", tried and not could, "%d settings, could open: %s" % (tried, could[:8]))
writable = [p for p in ("/proc/sys", "/proc/sysrq-trigger") if os.path.exists(p) and not os.statvfs(p).f_flag & os.ST_RDONLY]
judge("read-only", not writable, "mounted for writing: %s" % writable)
