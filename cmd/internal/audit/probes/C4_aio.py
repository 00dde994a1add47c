# id: C4
# title: requests for input and output that the kernel counts for the whole host
# attempts: io_setup
# load
# meanwhile: import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); taken = libc.syscall(206 if os.uname().machine == "x86_64" else 0, 1, ctypes.byref(ctypes.c_ulong())) < 0 and ctypes.get_errno() == 11; print("no requests are left to another conversation" if taken else 42)

made = 0
def take(n):
    global made
    while made < 10**6:
        syscall("io_setup", n, ctypes.byref(ctypes.c_ulong()))
        made += n

def all_there_are():
    for n in 50_000, 10_000, 1_000, 100, 10, 1:
        try:
            take(n)
        except OSError as e:
            if e.errno != errno.EAGAIN:
                raise
    return "took %d requests" % made

attempt("io_setup", all_there_are)
time.sleep(0.5)  # held, beside others
