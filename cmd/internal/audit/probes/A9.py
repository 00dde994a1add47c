# id: A9
# title: programs and modules for the kernel
# attempts: bpf, perf_event_open, kexec_load, kexec_file_load, init_module, finit_module, delete_module
# outside

# Nothing here can be loaded: there is no such command, flag, file or module.
attempt("bpf", lambda: syscall("bpf", -1, 0, 0))
event = (ctypes.c_uint32 * 32)(1, 128)  # a clock in software
event[10] = 0x61  # disabled, of user mode alone
attempt("perf_event_open", lambda: os.close(syscall("perf_event_open", ctypes.byref(event), 0, -1, -1, 0)))
attempt("kexec_load", lambda: syscall("kexec_load", 0, 0, 0, -1))
attempt("kexec_file_load", lambda: syscall("kexec_file_load", -1, -1, 0, b"", -1))
attempt("init_module", lambda: syscall("init_module", 0, 0, b""))
attempt("finit_module", lambda: syscall("finit_module", -1, b"", 0))
attempt("delete_module", lambda: syscall("delete_module", b"cloche_audit_none", os.O_NONBLOCK))
