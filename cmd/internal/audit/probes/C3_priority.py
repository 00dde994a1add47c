# id: C3
# title: a better place than others have
# attempts: nice, SCHED_FIFO, SCHED_RR, SCHED_DEADLINE, real-time input and output, oom_score_adj
# outside

NO = (errno.EPERM, errno.EACCES)
attempt("nice", lambda: in_child(lambda: os.nice(-5)), NO)
for name, policy in ("SCHED_FIFO", os.SCHED_FIFO), ("SCHED_RR", os.SCHED_RR):
    attempt(name, lambda: in_child(lambda: os.sched_setscheduler(0, policy, os.sched_param(1))), NO)
deadline = ctypes.create_string_buffer((48).to_bytes(4, "little") + (6).to_bytes(4, "little") + bytes(16)
                                       + (10**7).to_bytes(8, "little") + (3 * 10**7).to_bytes(8, "little") * 2)
attempt("SCHED_DEADLINE", lambda: in_child(lambda: syscall("sched_setattr", 0, deadline, 0)), NO)
ioprio_set = 251 if MACHINE == "x86_64" else 30
attempt("real-time input and output", lambda: in_child(lambda: syscall(ioprio_set, 1, 0, 1 << 13)), NO)
def never_me():
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write("-1000")
attempt("oom_score_adj", lambda: in_child(never_me), NO)
