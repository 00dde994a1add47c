# id: C2
# title: memory of many processes, each with little
# attempts: many processes
# ends: exit 0 or out of memory
# load

# Each holds a tenth of what is allowed; a child that is ended for it is a limit
# that holds.
children = []
def more(n):
    pid = os.fork()
    if pid == 0:
        held = bytearray(b"x") * (LIMITS["memory"] // 10)
        os.write(ready, b"x")
        signal.pause()
    children.append(pid)

read, ready = os.pipe()
for _ in range(20):
    more(0)
end = time.monotonic() + 1.5
ended = 0
while time.monotonic() < end and not ended:
    pid, status = os.waitpid(-1, os.WNOHANG)
    if pid:
        ended = status
    else:
        time.sleep(0.01)
judge("many processes", ended, "20 processes of a tenth each, first wait status %d" % ended)
