# id: C4
# title: objects of System V and POSIX
# attempts: semaphores, shared memory, message queues, POSIX message queues

def until_refused(name, make, most, expected):
    made = 0
    try:
        while made < most:
            make()
            made += 1
        open_(name, "%d" % made)
    except OSError as e:
        judge(name, e.errno in expected, "%s after %d" % (name_of(e), made))

FULL = (errno.ENOSPC, errno.ENOMEM)
until_refused("semaphores", lambda: syscall("semget", 0, 1, 0o1600), 40_000, FULL)
until_refused("shared memory", lambda: syscall("shmget", 0, 4096, 0o1600), 40_000, FULL)
until_refused("message queues", lambda: syscall("msgget", 0, 0o1600), 40_000, FULL)
names = iter(range(10_000))
until_refused("POSIX message queues", lambda: syscall("mq_open", b"cloche-audit-%d" % next(names), os.O_CREAT | os.O_RDWR, 0o600, 0), 1000, REFUSED)
