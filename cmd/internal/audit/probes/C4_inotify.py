# id: C4
# title: watches that the kernel counts for each user
# attempts: inotify
# load
# meanwhile: import ctypes; print(42 if ctypes.CDLL(None).inotify_init1(0) >= 0 else "another conversation gets no inotify instance")

held = []
try:
    while len(held) < 1024:
        held.append(syscall("inotify_init1", 0))
    open_("inotify", "%d instances" % len(held))
except OSError as e:
    judge("inotify", e.errno == errno.EMFILE, "%s after %d" % (name_of(e), len(held)))
# Held beside others, and what they give back is taken too.
end = time.monotonic() + 0.5
while time.monotonic() < end:
    try:
        held.append(syscall("inotify_init1", 0))
    except OSError:
        time.sleep(0.0005)
