# id: E2
# title: a signal to itself
# attempts: SIGKILL self
# ends: signal 9

os.kill(os.getpid(), signal.SIGKILL)
