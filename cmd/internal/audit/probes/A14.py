# id: A14
# title: control groups
# attempts: none mounted, release_agent, subtree_control, own limits, processes of the parent
# outside

import glob

def group():
    "the directories of one's own groups, as far as they are to be seen"
    with open("/proc/self/cgroup") as f:
        for line in f:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            for below in {"", "unified", controllers.removeprefix("name=")}:
                yield os.path.join("/sys/fs/cgroup", below) + path.rstrip("/")

def could(names):
    for name in names:
        try:
            os.close(os.open(name, os.O_WRONLY))
        except OSError as e:
            if e.errno not in READ_ONLY + (errno.ENOTDIR,):
                yield "%s: %s" % (name, name_of(e))
        else:
            yield name

own = sorted(set(group()))
top = ["/sys/fs/cgroup"] + glob.glob("/sys/fs/cgroup/*")
judge("none mounted", not [m for m in mounts() if m[3].startswith("cgroup")], "own groups %s" % own[:3])
for name, files in (
    ("release_agent", [d + "/release_agent" for d in top]),
    ("subtree_control", [d + "/cgroup.subtree_control" for d in top + own]),
    ("own limits", [d + "/" + f for d in own for f in ("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us")]),
    ("processes of the parent", [os.path.dirname(d) + "/cgroup.procs" for d in own] + [d + "/cgroup.procs" for d in top]),
):
    found = list(could(files))
    judge(name, not found, "could open: %s" % found[:4])
