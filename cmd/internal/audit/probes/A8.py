# id: A8
# title: faults that another thread answers
# attempts: userfaultfd, /dev/userfaultfd
# outside

attempt("userfaultfd", lambda: syscall("userfaultfd", 1))  # of user mode alone
attempt("/dev/userfaultfd", lambda: os.close(os.open("/dev/userfaultfd", os.O_RDWR)), HIDDEN)
