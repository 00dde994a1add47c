# id: C2
# title: memory of the kernel that is in no limit, or that all of the host shares
# attempts: table of futexes, filter of calls, filter of a socket, huge memory file, poll of many
# seconds: 5

import socket, struct

SET_SECCOMP, SET_NO_NEW_PRIVS, FUTEX_HASH = 22, 38, 78
SO_ATTACH_FILTER, MFD_HUGETLB = 26, 4

def prctl(*arguments):
    if libc.prctl(*(ctypes.c_ulong(a) for a in arguments)) == -1:
        raise OSError(ctypes.get_errno(), "")

allow = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))  # ret ALLOW
program = ctypes.create_string_buffer(struct.pack("@HP", 1, ctypes.addressof(allow)))

def filter_calls():
    prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(SET_SECCOMP, 2, ctypes.addressof(program), 0, 0)

def filter_socket():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program.raw[: struct.calcsize("@HP")])

attempt("table of futexes", lambda: in_child(lambda: prctl(FUTEX_HASH, 1, 16, 0, 0)))
attempt("filter of calls", lambda: in_child(filter_calls))
attempt("filter of a socket", filter_socket)
attempt("huge memory file", lambda: os.close(syscall("memfd_create", b"huge", MFD_HUGETLB)))

def poll(n):
    "waits for n descriptors that are nowhere"
    if libc.poll(None, ctypes.c_ulong(n), 0) == -1:
        raise OSError(ctypes.get_errno(), "")

attempt("poll of many", lambda: poll(4096))
