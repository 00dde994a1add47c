"""What Python programs do, a line for each kind that worked."""

import asyncio
import mmap
import multiprocessing as mp
import os
import resource
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory


def square(n):
    return n * n


def processes():
    assert subprocess.run(["/bin/sh", "-c", "echo a | cat"], capture_output=True, check=True).stdout == b"a\n"
    assert subprocess.run(["/bin/true"], start_new_session=True, preexec_fn=lambda: None).returncode == 0
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    sleeper = subprocess.Popen(["/bin/sleep", "60"])
    fd = os.pidfd_open(sleeper.pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL

    async def run():
        p = await asyncio.create_subprocess_exec("/bin/echo", "b", stdout=asyncio.subprocess.PIPE)
        return (await p.communicate())[0]

    assert asyncio.run(run()) == b"b\n"


def pools():
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(square, range(8))) == 140
    for how in "fork", "spawn", "forkserver":
        with ProcessPoolExecutor(2, mp_context=mp.get_context(how)) as pool:
            assert sum(pool.map(square, range(8))) == 140, how
    queue = mp.Queue()
    queue.put("c")
    assert queue.get(timeout=10) == "c"
    memory = shared_memory.SharedMemory(create=True, size=4096)
    memory.close()
    memory.unlink()


def files():
    with tempfile.TemporaryDirectory() as d:
        a, b = os.path.join(d, "a"), os.path.join(d, "b")
        with open(a, "wb") as f:
            f.write(b"x" * 100_000)
            os.fsync(f.fileno())
        shutil.copy2(a, b)
        os.chmod(b, 0o600)
        os.utime(b, (1, 1))
        os.link(a, a + "2")
        os.symlink(a, a + "3")
        os.mkfifo(a + "4")
        os.replace(a + "2", a + "5")
        assert len(os.listdir(d)) == 5
        with open(a, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
            m[:1] = b"y"
            m.flush()
        db = sqlite3.connect(os.path.join(d, "db"))
        db.execute("pragma journal_mode=wal")
        with db:
            db.execute("create table t (n)")
            db.execute("insert into t values (1)")
        db.close()
    os.close(os.memfd_create("d"))


def sockets():
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=lambda: server.accept()[0].sendall(b"e")).start()
    with socket.create_connection(server.getsockname(), 10) as c:
        assert c.recv(1) == b"e"
    server.close()
    a, b = socket.socketpair()
    poll = select.epoll()
    poll.register(b, select.EPOLLIN)
    a.send(b"f")
    assert poll.poll(10)
    socket.getaddrinfo("localhost", 80)  # asks netlink for the addresses


def oneself():
    assert os.sched_getaffinity(0)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    signal.setitimer(signal.ITIMER_REAL, 60)
    signal.setitimer(signal.ITIMER_REAL, 0)
    time.sleep(0.001)
    os.getrandom(8)
    os.umask(0o022)


def refused():
    for call in (lambda: socket.socket(socket.AF_VSOCK), lambda: os.setpriority(os.PRIO_PROCESS, 1, 0)):
        try:
            call()
        except PermissionError:
            continue
        raise AssertionError("no filter")


def blas():
    import numpy as np

    a = np.random.default_rng(1).random((400, 400))
    with ThreadPoolExecutor(8) as pool:
        for b in pool.map(lambda _: np.linalg.solve(a, a @ a), range(8)):
            assert np.allclose(a, b)


if __name__ == "__main__":
    for work in refused, processes, pools, files, sockets, oneself, blas:
        if work is blas and "blas" not in sys.argv:
            continue
        work()
        print(work.__name__)
