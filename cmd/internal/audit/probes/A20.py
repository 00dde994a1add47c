# id: A20
# title: the programs that the sandbox is made by
# attempts: /proc/self/exe, /proc/1/exe, the step, the parent's source, the filter
# outside

# ETXTBSY is not expected: then only that it runs keeps it from being written.
def opened(path):
    os.close(os.open(path, os.O_WRONLY))

attempt("/proc/self/exe", lambda: opened("/proc/self/exe"), READ_ONLY)
attempt("/proc/1/exe", lambda: opened("/proc/1/exe"), READ_ONLY)
attempt("the step", lambda: opened("/.cloche/step"), READ_ONLY)
attempt("the parent's source", lambda: opened("/.cloche/parent.py"), READ_ONLY)
attempt("the filter", lambda: opened("/.cloche/filter"), READ_ONLY)
