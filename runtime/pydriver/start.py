"""What Python runs of ours: a template outside of sandboxes, and in each sandbox
its first process, the parent. Neither runs code of an agent.

    template   imports modules once and forks the first processes of sandboxes
    parent     the first process of a sandbox; forks a child for each call
    child      runs a call's code

The source is in one file a part, put together to one program. Started without
arguments it is the parent; started with "template", that.
"""

import sys

import _ctypes
import _signal
import _socket
import _thread
import gc
import posix
import select
import time

CODE_NAME = "cell.py"
# Where the code stands for processes that multiprocessing starts without a fork:
# they run it again.
CODE_FILE = "/tmp/home/.cell.py"
STOP_SECONDS = 0.5
MAX_MESSAGE = 64 << 10
MAX_DESCRIPTORS = 16


# Types of C, and calls of its library, through _ctypes alone: that costs a tenth
# of ctypes, and is what a call would import, not this.
class Int(_ctypes._SimpleCData):
    _type_ = "i"


class Char(_ctypes._SimpleCData):
    _type_ = "c"


class Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = Int


LIBC = _ctypes.dlopen(None, 2)
FUNCTIONS = {name: Function(_ctypes.dlsym(LIBC, name)) for name in ("prctl", "unshare", "setns", "capset")}


def call(name, *arguments):
    """Calls a function of the C library; bytes are passed by their address."""
    result = FUNCTIONS[name](*arguments)
    if result < 0:
        raise OSError(_ctypes.get_errno(), name)
    return result


# prctl(2)
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def set_dumpable(on):
    call("prctl", PR_SET_DUMPABLE, on, 0, 0, 0)


def receive(socket):
    """Returns the next message, b"" at the end, and its descriptors."""
    data, ancillary, _, _ = socket.recvmsg(MAX_MESSAGE, _socket.CMSG_SPACE(4 * MAX_DESCRIPTORS))
    fds = []
    for level, kind, payload in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds += memoryview(payload[: len(payload) // 4 * 4]).cast("i").tolist()
    return data, fds


class Peer:
    """Speaks with another process over a SOCK_SEQPACKET socket, and is woken by
    the end of a child."""

    def __init__(self, control):
        self.control = _socket.socket(fileno=control)
        self.wake, wake_write = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        # A handler wakes poll; signals without one cannot reach the parent from
        # inside (pid_namespaces(7)), and SIGINT had Python's.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.poll = select.poll()
        self.poll.register(self.control.fileno(), select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)

    def send(self, text):
        self.control.send(text.encode("utf-8", "replace"))

    def receive(self):
        """Returns the next message and its descriptors. When the other side has
        hung up this process ends."""
        data, fds = receive(self.control)
        if not data:
            posix._exit(0)
        return data.decode(), fds

    def drain(self):
        try:
            while len(posix.read(self.wake, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass
