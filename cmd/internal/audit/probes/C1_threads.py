# id: C1
# title: a bomb of threads
# attempts: thread bomb
# load

import threading

threads, most = [], LIMITS["pids"] + 64
stop = threading.Event()
threading.stack_size(64 << 10)
try:
    while len(threads) < most:
        t = threading.Thread(target=stop.wait, daemon=True)
        t.start()
        threads.append(t)
    open_("thread bomb", "%d threads, of %d allowed" % (len(threads), LIMITS["pids"]))
except RuntimeError as e:
    judge("thread bomb", len(threads) <= LIMITS["pids"], "%s after %d, of %d allowed" % (e, len(threads), LIMITS["pids"]))
time.sleep(1)  # held for a moment, beside others
stop.set()
