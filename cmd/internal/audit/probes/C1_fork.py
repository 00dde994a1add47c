# id: C1
# title: a bomb of processes
# attempts: fork bomb
# seconds: 1
# ends: timeout
# load

import fcntl

# Each writes a byte when it is born, so that the bomb knows how large it is and
# stops where no limit does it.
born, said = os.memfd_create("born"), os.memfd_create("said")
for fd in born, said:
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
most = 4 * LIMITS["pids"] + 64

def first():
    os.write(said, b"x")
    return os.fstat(said).st_size == 1

while os.fstat(born).st_size < most:
    try:
        if os.fork() == 0:
            os.write(born, b"x")
    except OSError as e:
        if os.fstat(said).st_size == 0 and first():
            made = os.fstat(born).st_size
            judge("fork bomb", made <= LIMITS["pids"], "%s after %d, of %d allowed" % (name_of(e), made, LIMITS["pids"]))
if os.fstat(said).st_size == 0 and first():
    open_("fork bomb", "%d processes, of %d allowed" % (os.fstat(born).st_size, LIMITS["pids"]))
while True:
    time.sleep(60)
