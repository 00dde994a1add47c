# id: A7
# title: io_uring
# attempts: io_uring_setup
# outside

attempt("io_uring_setup", lambda: syscall("io_uring_setup", 1, ctypes.byref((ctypes.c_uint32 * 30)())))
