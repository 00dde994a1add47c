# id: C6
# title: a process that waits in the kernel
# attempts: D state
# seconds: 0.5
# ends: timeout

# The parent of a vfork waits, in state D, for the child to execute something.
VFORK = 0x4000
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
pid = syscall("clone", VFORK | signal.SIGCHLD, 0, 0, 0, 0)
while True:
    time.sleep(60)
