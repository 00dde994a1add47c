# id: A12
# title: how the processor and the loader work for it
# attempts: ADDR_NO_RANDOMIZE, modify_ldt, iopl, vm86
# outside

attempt("ADDR_NO_RANDOMIZE", lambda: in_child(lambda: syscall("personality", 0x0040000)))
attempt("modify_ldt", lambda: syscall("modify_ldt", 0, 0, 0))
attempt("iopl", lambda: syscall("iopl", 0))

# mov eax, 166; int 0x80; ret: vm86 by the gate of 32-bit programs
vm86 = b"\xb8\xa6\x00\x00\x00\xcd\x80\x48\x63\xc0\xc3"
def call():
    result = machine_code(vm86, None)()
    if result < 0:
        raise OSError(-result, "")
try:
    status = in_child(call)
except Absent as e:
    blocked("vm86", e)
except OSError as e:
    judge("vm86", e.errno in REFUSED, name_of(e))
else:
    judge("vm86", os.WIFSIGNALED(status), "wait status %d" % status)
