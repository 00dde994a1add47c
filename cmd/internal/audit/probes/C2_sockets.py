# id: C2
# title: memory of the kernel, in sockets that nobody reads
# attempts: unix sockets
# ends: exit 0 or out of memory
# load

import socket

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held, piece = [], bytes(64 << 10)
def more(n):
    done = 0
    while done < n:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        held.append(pair)
        pair[0].setblocking(False)
        try:
            while True:
                done += pair[0].send(piece)
        except BlockingIOError:
            pass
take_memory("unix sockets", more, LIMITS["kernel"])
