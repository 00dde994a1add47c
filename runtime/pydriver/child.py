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


