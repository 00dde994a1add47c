# id: C6
# title: a loop in machine code, which Python cannot interrupt
# attempts: loop that holds the interpreter
# seconds: 0.5
# ends: timeout

machine_code(b"\xeb\xfe", b"\x00\x00\x00\x14")()
