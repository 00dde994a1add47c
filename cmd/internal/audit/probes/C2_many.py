# id: C2
# title: memory of many processes, each with little
# attempts: many processes
# ends: exit 0 or out of memory
# load

# Each takes a tenth of what is allowed, says so, and waits. That one of them is
# ended is a limit that holds; that all have it is none.
count = 20
read, ready = os.pipe()
os.set_blocking(read, False)
for _ in range(count):
    if os.fork() == 0:
        held = bytearray(b"x") * (LIMITS["memory"] // 10)
        os.write(ready, b"x")
        signal.pause()

have, ended = 0, 0
until = None
while not ended and (until is None or time.monotonic() < until):
    try:
        have += len(os.read(read, count))
    except BlockingIOError:
        pass
    if have == count and until is None:
        until = time.monotonic() + 1  # held for a moment
    pid, status = os.waitpid(-1, os.WNOHANG)
    ended = status if pid else 0
    time.sleep(0.01)
judge("many processes", ended, "%d of %d processes have a tenth each, wait status of one that ended: %d" % (have, count, ended))
