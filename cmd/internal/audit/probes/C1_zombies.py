# id: C1
# title: dead processes that nobody waits for
# attempts: zombie storm
# load

most, made = LIMITS["pids"] + 64, 0
try:
    while made < most:
        if os.fork() == 0:
            os._exit(0)
        made += 1
    open_("zombie storm", "%d zombies, of %d allowed" % (made, LIMITS["pids"]))
except OSError as e:
    judge("zombie storm", made <= LIMITS["pids"], "%s after %d, of %d allowed" % (name_of(e), made, LIMITS["pids"]))
# Orphans that die by thousands are for the first process to wait for.
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
end = time.monotonic() + 1
while time.monotonic() < end:
    pid = os.fork()
    if pid == 0:
        try:
            os.fork()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
