# id: C6
# title: signals that are ignored or blocked
# attempts: SIGINT ignored, alarm blocked
# seconds: 0.5
# ends: timeout

for s in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try:
        signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
signal.alarm(1)
while True:
    pass
