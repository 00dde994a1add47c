# id: C2
# title: memory of the kernel, in its answers that nobody reads
# attempts: netlink
# ends: exit 0 or out of memory
# load

import socket, struct

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
GETLINK, REQUEST = 18, 1
ask = struct.pack("=IHHII", 32, GETLINK, REQUEST, 1, 0) + struct.pack("=BxHiII", 0, 0, 1, 0, 0)
def more(n):
    done = 0
    while done < n:
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        held.append(s)
        s.setblocking(False)
        for _ in range(1000):
            try:
                s.send(ask)
            except OSError:
                break
        info = s.getsockopt(socket.SOL_SOCKET, 55, 36)  # SO_MEMINFO
        done += struct.unpack_from("=I", info)[0]
        if not struct.unpack_from("=I", info)[0]:
            raise OSError(errno.ENOMEM, "")
take_memory("netlink", more, False)  # no kernel counts it
