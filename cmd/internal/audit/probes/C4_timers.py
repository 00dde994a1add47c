# id: C4
# title: timers without end
# attempts: timers, queued signals

made = 0
timer = ctypes.c_int()
try:
    while made < 20_000:
        syscall("timer_create", 1, 0, ctypes.byref(timer))
        made += 1
    open_("timers", "%d" % made)
except OSError as e:
    judge("timers", e.errno == errno.EAGAIN, "%s after %d" % (name_of(e), made))

# Queued in a child of its own, where no timer holds a place.
def queue():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    for _ in range(20_000):
        if libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) < 0:
            raise OSError(ctypes.get_errno(), "")
attempt("queued signals", lambda: in_child(queue), (errno.EAGAIN,))
