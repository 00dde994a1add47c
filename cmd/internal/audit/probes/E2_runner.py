# id: E2
# title: the end of the process that runs the calls
# attempts: runner

# Whatever is sent to it, and to all at once.
pid = os.getppid()
for s in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}):
    os.kill(pid, s)
def all_but_me(s):
    # It does not reach its sender, nor the first process.
    try:
        os.kill(-1, s)
    except ProcessLookupError:
        pass
for s in signal.SIGSTOP, signal.SIGKILL:
    os.kill(pid, s)
    all_but_me(s)
time.sleep(0.1)
with open("/proc/%d/stat" % pid) as f:
    state = f.read().rsplit(")", 1)[1].split()[0]
judge("runner", os.getppid() == pid and state in "SRD", "state %s of process %d" % (state, pid))
