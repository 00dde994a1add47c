# id: C4
# title: descriptors without end
# attempts: descriptors, epoll, more than allowed

most = 70_000  # there is a limit if it is met before that

def until_refused(name, make):
    held = []
    try:
        while len(held) < most:
            held.append(make())
        open_(name, "%d" % len(held))
    except OSError as e:
        judge(name, e.errno in (errno.EMFILE, errno.ENOMEM), "%s after %d" % (name_of(e), len(held)))
    for fd in held:
        os.close(fd)

def checked(fd):
    if fd < 0:
        raise OSError(ctypes.get_errno(), "")
    return fd

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
until_refused("descriptors", lambda: os.open("/dev/null", os.O_RDONLY))
until_refused("epoll", lambda: checked(libc.epoll_create1(0)))
def raised():
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
try:
    raised()
except (ValueError, OSError) as e:  # ValueError: Python's for EPERM
    blocked("more than allowed", "%s; the limit is %d" % (e, hard))
else:
    open_("more than allowed", "the limit is %d now" % (hard + 1))
