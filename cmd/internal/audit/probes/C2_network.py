# id: C2
# title: memory of the kernel, in connections that nobody reads
# attempts: TCP, UDP
# ends: exit 0 or out of memory
# load

import socket, struct

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held, piece = [], bytes(1 << 20)

def inside(s):
    "the memory that a socket holds: SO_MEMINFO"
    info = struct.unpack("=9I", s.getsockopt(socket.SOL_SOCKET, 55, 36))
    return info[0] + info[2] + info[5]  # received, to be sent, set aside

def filler(fill):
    "fills pairs of sockets until they hold n bytes; a limit makes them hold little"
    def more(n):
        done, little = 0, 0
        while done < n:
            one, other = fill()
            held.append((one, other))
            got = inside(one) + inside(other)
            done += got
            little = little + 1 if got < 32 << 10 else 0
            if little == 50:
                raise OSError(errno.ENOMEM, "")
    return more

def pour(s):
    s.setblocking(False)
    full = 0
    while full < 3:
        try:
            s.send(piece[:60_000] if s.type == socket.SOCK_DGRAM else piece)
            full = full + 1 if s.type == socket.SOCK_DGRAM else 0
        except OSError:
            full += 1
            time.sleep(0.0002)

def tcp():
    one = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    pour(one)
    return one, other

def udp():
    one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "12")
    other.bind(("127.0.0.1", 0))
    one.connect(other.getsockname())
    pour(one)
    return one, other

listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
# Control groups of version 1 count none of it.
take_memory("TCP", filler(tcp), False)
held.clear()
take_memory("UDP", filler(udp), False)
