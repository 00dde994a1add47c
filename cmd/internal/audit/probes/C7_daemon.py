# id: C7
# title: daemons
# attempts: double fork, respawn

signal.signal(signal.SIGCHLD, signal.SIG_DFL)
def daemon(work):
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for s in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(s, signal.SIG_IGN)
    work()

def respawn():
    "each lives for a moment and leaves a child behind, so that no list of processes is ever right"
    while True:
        time.sleep(0.0005)
        if os.fork():
            os._exit(0)

daemon(lambda: time.sleep(600))
blocked("double fork", "a daemon; it must end with the call")
daemon(respawn)
blocked("respawn", "a daemon that is always another process; it must end with the call")
time.sleep(0.05)
