# id: A11
# title: what the kernel says of itself
# attempts: syslog, /dev/kmsg, /proc/kmsg, /proc/kcore, /proc/kallsyms
# outside

attempt("syslog", lambda: syscall("syslog", 10, 0, 0))  # the size of its buffer
attempt("/dev/kmsg", lambda: os.close(os.open("/dev/kmsg", os.O_RDONLY)), HIDDEN)
for name in "/proc/kmsg", "/proc/kcore", "/proc/kallsyms":
    # Not read: that would take messages from who waits for them.
    try:
        there = os.stat(name)
    except OSError as e:
        judge(name, e.errno in HIDDEN, name_of(e))
    else:
        null = stat.S_ISCHR(there.st_mode) and there.st_rdev == os.makedev(1, 3)
        judge(name, null, "it is /dev/null" if null else "it is there, mode %o" % there.st_mode)
