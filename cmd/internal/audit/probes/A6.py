# id: A6
# title: keys
# attempts: keyctl, add_key, request_key
# outside

PROCESS_KEYRING, SESSION_KEYRING = -2, -3
attempt("keyctl", lambda: syscall("keyctl", 0, SESSION_KEYRING, 0, 0, 0))
attempt("add_key", lambda: in_child(lambda: syscall("add_key", b"user", b"cloche-audit", b"x", 1, PROCESS_KEYRING)))
attempt("request_key", lambda: syscall("request_key", b"user", b"cloche-audit-none", 0, 0))
