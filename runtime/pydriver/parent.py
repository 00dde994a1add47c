"""The first process of a sandbox. It forks a child for each call and runs no
code of an agent itself.

It speaks with the server over descriptor 3, a SOCK_SEQPACKET socket whose
messages are a word and its arguments. The server says

    run             code, standard output and standard error are passed along
    stop            the running call is to end: SIGINT, and a moment later SIGKILL
    preload NAME…   modules to import while nothing else is to be done

and is told

    ready VERSION
    loaded NAME SECONDS | skipped NAME REASON
    started         the child was made and its time begins
    done STATUS     the child's wait status; no process but this one is left

The server hanging up is this process's end, and so the sandbox's.
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
# Imports wait for a pause of this length: a call that comes in the middle of
# one waits for its end.
QUIET_SECONDS = 1
PLACES = ("/work", "/tmp", "/tmp/home", "/dev/shm")
MAX_MESSAGE = 64 << 10
SHUT_RDWR = 2

# prctl(2): reachable through _ctypes alone, which costs a tenth of ctypes.
_prctl = _ctypes.dlsym(_ctypes.dlopen(None, 2), "prctl")
PR_SET_DUMPABLE = 4


def set_dumpable(on):
    _ctypes.call_function(_prctl, (PR_SET_DUMPABLE, on, 0, 0, 0))


class Parent:
    """Waits for the server and for children, one thing at a time."""

    def __init__(self, control):
        self.control = _socket.socket(fileno=control)
        self.wake, wake_write = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        # A handler wakes poll; signals without one cannot reach this process
        # from inside (pid_namespaces(7)), and SIGINT had Python's.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.poll = select.poll()
        self.poll.register(self.control.fileno(), select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)
        self.to_load = []

    def serve(self):
        self.send("ready %d.%d.%d" % sys.version_info[:3])
        while True:
            if self.to_load and self.quiet():
                self.load(self.to_load.pop(0))
                continue
            word, arguments, fds = self.receive()
            if word == "run":
                self.run(fds)
            elif word == "preload":
                self.to_load += arguments
            # A stop may cross the end of its call.

    def quiet(self):
        """Waits for a message, but not long; true if none came."""
        while True:
            ready = [fd for fd, _ in self.poll.poll(QUIET_SECONDS * 1000)]
            if self.wake not in ready:
                return not ready
            self.drain()  # of a process that an import started

    def send(self, text):
        self.control.send(text.encode("utf-8", "replace"))

    def receive(self):
        """Returns the next message: its word, its arguments, its descriptors."""
        data, ancillary, _, _ = self.control.recvmsg(MAX_MESSAGE, 256)
        if not data:
            posix._exit(0)
        fds = []
        for level, kind, payload in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                fds += memoryview(payload[: len(payload) // 4 * 4]).cast("i").tolist()
        word, *arguments = data.decode().split(" ")
        return word, arguments, fds

    def load(self, name):
        """Imports a module, so that children have it at once. What that
        writes, as matplotlib its list of fonts, is not for them to find."""
        start = time.monotonic()
        files = temporary_files()
        try:
            __import__(name)
        except BaseException as e:
            # Most often it is not installed; nothing depends on it.
            self.send("skipped %s %.200s" % (name, repr(e).replace("\n", " ")))
        else:
            self.send("loaded %s %.3f" % (name, time.monotonic() - start))
        for file in temporary_files() - files:
            remove(file)
        if not self.to_load:
            # Code that fails needs it; most of the modules above bring it along.
            import traceback

            gc.collect()
        # A child's collector is not to walk, and so copy, what is here already.
        gc.freeze()

    def run(self, fds):
        """Runs one call in a child and clears up after it."""
        code, out, err = fds
        pid = posix.fork()
        if pid == 0:
            child_main(self, code, out, err)
        for fd in fds:
            posix.close(fd)
        self.send("started")
        status = self.watch(pid)
        self.clear()
        self.send("done %d" % status)

    def watch(self, pid):
        """Waits for the child's end; returns its wait status."""
        kill_at = None
        while True:
            status = self.reap(pid)
            if status is not None:
                return status
            timeout = None
            if kill_at is not None:
                timeout = max(0, kill_at - time.monotonic()) * 1000
            ready = [fd for fd, _ in self.poll.poll(timeout)]
            if self.wake in ready:
                self.drain()
            if self.control.fileno() in ready:
                word, _, _ = self.receive()
                if word == "stop" and kill_at is None:
                    posix.kill(pid, _signal.SIGINT)
                    kill_at = time.monotonic() + STOP_SECONDS
            if kill_at is not None and time.monotonic() >= kill_at:
                kill_all()

    def reap(self, pid):
        """Waits for all who ended, orphans too; returns the status of pid, or
        None if it still runs."""
        found = None
        while True:
            try:
                ended, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return found
            if ended == 0:
                return found
            if ended == pid:
                found = status

    def drain(self):
        try:
            while len(posix.read(self.wake, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def clear(self):
        """Ends every other process of the sandbox. None escapes: in the kernel
        a kill of all and a fork exclude each other, and who loses its parent is
        given to this process before that parent can be waited for."""
        kill_all()
        try:
            while True:
                posix.waitpid(-1, 0)
        except ChildProcessError:
            self.drain()


def temporary_files():
    found = set()
    for folder in PLACES:
        try:
            found |= {folder + "/" + name for name in posix.listdir(folder)}
        except OSError:
            pass  # a call has closed it, and it will be replaced
    return found


def remove(name):
    """Removes a file, or a folder with what is in it, as far as it can."""
    try:
        try:
            posix.unlink(name)
        except IsADirectoryError:
            for entry in posix.listdir(name):
                remove(name + "/" + entry)
            posix.rmdir(name)
    except OSError:
        pass


def kill_all():
    try:
        posix.kill(-1, _signal.SIGKILL)
    except ProcessLookupError:
        pass


def child_main(parent, code, out, err):
    """Becomes a fresh process that runs the code; does not return."""
    status = 70
    try:
        source = read_all(code)
        freshen(out, err)
        del parent
        known = set(sys.modules)
        status = finish(run_source(source), known)
    except BaseException as e:
        posix.write(2, ("cloche: %r\n" % e).encode("utf-8", "replace"))
    finally:
        posix._exit(status & 0xFF)


def read_all(fd):
    size = posix.fstat(fd).st_size
    return posix.pread(fd, size, 0)


def freshen(out, err):
    """Undoes what a process gets from being forked from this one."""
    posix.setsid()
    null = posix.open("/dev/null", posix.O_RDONLY)
    for fd, wanted in ((null, 0), (out, 1), (err, 2)):
        posix.dup2(fd, wanted)
    _signal.set_wakeup_fd(-1)
    posix.closerange(3, 1 << 30)
    set_dumpable(1)
    # The kernel is to end this process, not its parent, when memory is short.
    fd = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY)
    posix.write(fd, b"500")
    posix.close(fd)
    lower_session()
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    posix.chdir("/work")
    reseed()
    time.tzset()
    import builtins

    builtins.input = no_input
    for stream in (sys.stdout, sys.stderr):
        # What was printed is to be there also when the process is killed.
        stream.reconfigure(line_buffering=True)
    sys.argv[:] = [""]
    del sys.orig_argv[1:]
    sys.path[:] = [""] + PATH


def lower_session():
    """Gives the new session the priority of its process: a kernel that groups
    processes by session (autogroup in sched(7)) weighs sessions first."""
    nice = posix.getpriority(posix.PRIO_PROCESS, 0)
    if nice <= 0:
        return
    try:
        fd = posix.open("/proc/self/autogroup", posix.O_WRONLY)
        try:
            posix.write(fd, b"%d" % nice)
        finally:
            posix.close(fd)
    except OSError:
        pass  # the kernel groups nothing, or was asked a moment ago


def reseed():
    """random reseeds itself after a fork; numpy's global generator does not."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed(int.from_bytes(posix.urandom(4), "little"))


def no_input(prompt="", /):
    raise EOFError(
        "input() has nobody to ask: standard input is empty here. Put the value into the code instead."
    ) from None


class Source:
    """Lets tracebacks and inspect find the lines of the code (PEP 302)."""

    def __init__(self, text):
        self.text = text

    def get_source(self, name):
        return self.text


def run_source(source):
    """Runs the agent's code as __main__; returns the exit status."""
    module = type(sys)("__main__")
    module.__builtins__ = sys.modules["builtins"]
    module.__file__ = CODE_FILE
    sys.modules["__main__"] = module
    try:
        write_code(source)
        text = source.decode().removeprefix("\ufeff")
        module.__loader__ = Source(text)
        if "linecache" in sys.modules:
            # For who asks by name alone, as warnings do.
            sys.modules["linecache"].lazycache(CODE_NAME, module.__dict__)
        execute(text, module.__dict__)
    except SystemExit as e:
        return exit_status(e)
    except BaseException as e:
        show(e)
        return 1
    return 0


def write_code(source):
    """Writes CODE_FILE, whatever an earlier call has left there."""
    remove(CODE_FILE)
    try:
        fd = posix.open(CODE_FILE, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
        try:
            while source:
                source = source[posix.write(fd, source) :]
        finally:
            posix.close(fd)
    except OSError:
        pass  # there is no room: who needs the file will say so


def execute(text, names):
    """Runs the statements; the value of a last expression is shown."""
    only_tree = 0x400  # ast.PyCF_ONLY_AST, without importing ast
    tree = compile(text, CODE_NAME, "exec", only_tree, dont_inherit=True)
    last = []
    if tree.body and type(tree.body[-1]).__name__ == "Expr":
        last.append(tree.body.pop())
    try:
        code = compile(tree, CODE_NAME, "exec", dont_inherit=True)
    except SyntaxError as e:
        if e.text is None and e.lineno:  # a tree does not know its text
            e.text = text.split("\n")[e.lineno - 1]
        raise
    del tree
    future = code.co_flags & 0x1FE0000  # from __future__ imports
    exec(code, names)
    if last:
        import _ast

        exec(compile(_ast.Interactive(last), CODE_NAME, "single", future, dont_inherit=True), names)


def exit_status(e):
    if e.code is None:
        return 0
    if isinstance(e.code, int):
        return e.code if -(1 << 63) <= e.code < 1 << 63 else -1  # as a C long
    try:
        if sys.stderr is not None:
            print(e.code, file=sys.stderr)
    except BaseException:
        pass  # standard error is closed
    return 1


def show(e):
    """Has an exception that ends the code printed, by whom the code chose."""
    hook = sys.excepthook
    if hook is not sys.__excepthook__:
        try:
            hook(type(e), e, own(e))
            return
        except BaseException as failed:
            failed.__context__ = None  # e, which is told of below
            print_traceback(failed, "Error in sys.excepthook:\n")
            print_traceback(e, "\nOriginal exception was:\n")
    else:
        print_traceback(e)


def own(e):
    """The traceback of e without frames of this file."""
    ours = own.__code__.co_filename
    tb = e.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == ours:
        tb = tb.tb_next
    last = tb
    while last is not None:
        while last.tb_next is not None and last.tb_next.tb_frame.f_code.co_filename == ours:
            last.tb_next = last.tb_next.tb_next
        last = last.tb_next
    return tb


def print_traceback(e, title=""):
    try:
        if sys.stderr is not None:
            import traceback

            sys.stderr.write(title)
            traceback.print_exception(type(e), e, own(e))
    except BaseException:
        # Nothing can be imported, as when no descriptor is left, or standard
        # error is closed: then this says nothing either.
        e.__traceback__ = own(e)
        sys.__excepthook__(type(e), e, e.__traceback__)


def finish(status, known):
    """What the interpreter does at its end, but for taking itself apart."""
    threading = sys.modules.get("threading")
    try:
        if threading is not None:
            threading._shutdown()
        import atexit

        atexit._run_exitfuncs()
    except BaseException as e:
        show(e)
        status = status or 1
    status = flush(status)
    try:
        # What the code made is let go, so that files are written and finalizers
        # run; what was there before it is not.
        for name in set(sys.modules) - known | {"__main__"}:
            del sys.modules[name]
        sys.modules["builtins"].__dict__.pop("_", None)
        gc.collect()
    except BaseException as e:
        show(e)
    return flush(status)


def flush(status):
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            status = status or 120  # as the interpreter does
    return status


set_dumpable(0)
# Without it threading prints tracebacks in Python, which finds the lines.
del _thread._excepthook
PATH = sys.path[1:]
if __name__ == "__main__":
    gc.freeze()
    Parent(3).serve()
