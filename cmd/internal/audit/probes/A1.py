# id: A1
# title: other processes, and the host behind them
# attempts: only its own processes, /proc/1/root/etc/shadow, /proc/1/environ, cwd of others
# outside

def read(path):
    with open(path, "rb") as f:
        return f.read(1)

own = {os.getpid(), os.getppid()}
others = sorted(int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) not in own)
judge("only its own processes", os.getppid() == 1 and not others, "pid 1 is the parent, others: %s" % others[:8])
attempt("/proc/1/root/etc/shadow", lambda: read("/proc/1/root/etc/shadow"), HIDDEN)
attempt("/proc/1/environ", lambda: read("/proc/1/environ"), HIDDEN)

seen = []
for pid in [1] + others:
    try:
        seen.append("%d: %s" % (pid, os.readlink("/proc/%d/cwd" % pid)))
    except OSError as e:
        if e.errno not in HIDDEN + (errno.ESRCH,):
            seen.append("%d: %s" % (pid, name_of(e)))
judge("cwd of others", not seen, "of %d processes, seen: %s" % (1 + len(others), seen[:8]))
