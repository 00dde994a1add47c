# id: A21
# title: system calls by other gates
# attempts: int 0x80, x32, x32 of ptrace
# outside

# mov eax, 20; int 0x80; ret: getpid as 32-bit programs call it
getpid32 = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
try:
    status = in_child(machine_code(getpid32, None))
except Absent as e:
    blocked("int 0x80", e)
else:
    judge("int 0x80", os.WIFSIGNALED(status), "wait status %d" % status)

def x32(n):
    if MACHINE != "x86_64":
        raise Absent("no such call on " + MACHINE)
    return syscall(1 << 30 | n)

attempt("x32", lambda: x32(39), (errno.ENOSYS,))
attempt("x32 of ptrace", lambda: in_child(lambda: x32(521)), (errno.ENOSYS,))
