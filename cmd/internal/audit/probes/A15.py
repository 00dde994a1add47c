# id: A15
# title: what /sys tells of the machine
# attempts: /sys/fs/cgroup, /sys/kernel/debug, /sys/kernel/tracing, /sys/firmware, interfaces of the host
# outside

def entries(path):
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []
    except PermissionError:
        return ["(something)"]

for path in "/sys/fs/cgroup", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/firmware":
    found = entries(path)
    judge(path, not found or os.statvfs(path).f_flag & os.ST_RDONLY, "holds %s" % found[:4])
names = [n for n in entries("/sys/class/net") if n != "lo"]
judge("interfaces of the host", not names, "has %s" % names)
