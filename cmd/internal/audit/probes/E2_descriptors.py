# id: E2
# title: descriptors that are closed and replaced
# attempts: descriptors
# ends: exit 0

import socket

os.closerange(3, 1 << 16)
pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for fd in range(3, 64):
    if fd not in (pair[0].fileno(), pair[1].fileno()):
        os.dup2(pair[0].fileno(), fd)
        os.close(fd)
os.dup2(0, 3)
blocked("descriptors", "all closed, 3 replaced; the answer must come")
os.closerange(0, 1 << 16)
