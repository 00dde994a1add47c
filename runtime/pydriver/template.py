class Template(Peer):
    """Forks the first processes of sandboxes. It lives outside of them, in the
    image's root filesystem, and has no privilege of its own.

    The shim, at the other end of its socket, says

        sandbox given|own   make the first process of a sandbox, and let it speak
                            over the first descriptor passed along; the second is
                            for its server, the third its standard error. Its
                            user namespace is given its ids, or has this one's own
        import NAME…        make a template like this one that imports modules,
                            and speaks over the descriptor passed along; further
                            lines are for sandboxes to tell of other modules

    and is told

        ready
        importing NAME
        loaded NAME SECONDS | skipped NAME REASON
        unfit NAME REASON   what it has left behind would not be in a fork; this
                            is the end of a template
    """

    def __init__(self, control, told=()):
        super().__init__(control)
        self.told = list(told)

    def load(self, names):
        """Imports modules, so that what is forked from here has them at once."""
        for name in names:
            self.send("importing " + name)
            self.load_one(name)
        # Code that fails needs it; most of the modules above bring it along.
        import traceback

        gc.collect()
        # A fork's collector is not to walk, and so copy, what is here already.
        gc.freeze()

    def load_one(self, name):
        start = time.monotonic()
        files = set(posix.listdir("/proc/self/fd"))
        try:
            __import__(name)
        except BaseException as e:
            # Most often it is not installed; nothing depends on it.
            self.tell("skipped %s %s" % (name, plain(e)))
            return
        reason = self.left_behind(files)
        if reason:
            self.send("unfit %s %s" % (name, reason))
            kill_children()
            posix._exit(0)
        self.tell("loaded %s %.3f" % (name, time.monotonic() - start))

    def tell(self, text):
        self.told.append(text)
        self.send(text)

    def left_behind(self, files):
        """Says what an import has left in this process that a fork would lack, or
        would share with others; "" if nothing. files were open before."""
        if self.reap():
            return "it starts a process"
        if set(posix.listdir("/proc/self/fd")) - files:
            return "it keeps a file open"
        for line in read_file("/proc/self/maps").split(b"\n"):
            if b" rw-s " in line or b" rwxs " in line or b" -w-s " in line:
                return "it shares memory"
        if _thread._count():
            return "it starts a thread"
        # Libraries that can bear a fork end their threads before one.
        pid = posix.fork()
        if pid == 0:
            posix._exit(0)
        posix.waitpid(pid, 0)
        if len(posix.listdir("/proc/self/task")) > 1:
            return "it starts a thread"
        return ""

    def reap(self):
        """Waits for children that ended; true if others have not."""
        try:
            while posix.waitpid(-1, posix.WNOHANG)[0]:
                pass
            return True
        except ChildProcessError:
            return False

    def serve(self):
        """Serves the shim. In what it forks it returns what that is to do next."""
        self.send("ready")
        while True:
            ready = [fd for fd, _ in self.poll.poll()]
            if self.wake in ready:
                self.drain()
                self.reap()
            if self.control.fileno() not in ready:
                continue
            line, fds = self.receive()
            line, *told = line.split("\n")
            word, *arguments = line.split(" ")
            try:
                pid = posix.fork()
            except OSError as e:  # what is passed along is closed, which tells
                pid = -1
                complain(e)
            if pid == 0:
                self.control.detach()
                if word == "sandbox":
                    return lambda: newborn(self.told, arguments[0] == "own", *fds)
                return lambda: importer(arguments, told, *fds)
            for fd in fds:
                posix.close(fd)


def kill_children():
    """Ends what this process has started, and what that has."""
    me = posix.getpid()
    while True:
        found = False
        for name in posix.listdir("/proc"):
            try:
                if name.isdigit() and int(read_file("/proc/%s/stat" % name).rpartition(b")")[2].split()[1]) == me:
                    posix.kill(int(name), _signal.SIGKILL)
                    posix.waitpid(int(name), 0)
                    found = True
            except OSError:
                pass  # it has ended
        if not found:
            return


def complain(e):
    posix.write(2, ("cloche: %s\n" % plain(e)).encode("utf-8", "replace"))


def plain(e):
    return ("%.200s" % repr(e)).replace("\n", " ")


def only(fds):
    """Closes all descriptors but standard ones and fds, which become 3 and so
    on. It returns them."""
    _signal.set_wakeup_fd(-1)
    low = 3 + len(fds)
    # Out of the way first, so that none is overwritten before it is moved.
    fds = [move(fd, low) for fd in fds]
    for number, fd in enumerate(fds, 3):
        posix.dup2(fd, number, True)
    posix.closerange(low, 1 << 30)
    for number in range(3, low):
        posix.set_inheritable(number, False)
    return range(3, low)


def move(fd, least):
    while fd < least:
        fd = posix.dup(fd)
    return fd


def importer(names, told, control):
    """Becomes a template that has modules imported."""
    (control,) = only([control])
    template = Template(control, told)
    # What modules start is to be found; what is forked later is the shim's.
    call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    template.load(names)
    call("prctl", PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return template.serve


# unshare(2), setns(2)
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
AGENT = 1000  # the user that code runs as, inside


def newborn(told, own, setup, control, err):
    """Becomes the first process of a sandbox. Step by step the shim does its part
    of the work:

        here        there
        user        has made a user namespace; it is given ids
        mapped      …
        born        is the first process of a pid namespace; now there can be a
                    container around it
        join        … whose other namespaces are passed along
        joined      is confined
    """
    posix.dup2(err, 2)
    setup, control = only([setup, control])
    reset_signals()
    setup = _socket.socket(fileno=setup)
    try:
        call("unshare", CLONE_NEWUSER)
        if own:
            map_ids("0 %d 1" % AGENT)
        setup.send(b"user")
        expect(setup, b"mapped")
        call("unshare", CLONE_NEWPID)
        if posix.fork():
            posix._exit(0)
        setup.send(b"born")
        join(expect(setup, b"join"))
        posix.setsid()
        become_agent(own)
        drop_capabilities()
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        set_dumpable(0)
        load_filter()
        setup.send(b"joined")
    except BaseException as e:
        try:
            setup.send(("failed " + plain(e)).encode("utf-8", "replace"))
        finally:  # nobody may be there to be told
            posix._exit(1)
    setup.close()
    posix.dup2(control, 3)  # where a parent has it
    posix.closerange(4, 1 << 30)
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        # OpenSSL tells processes apart by their ids, and children of other
        # sandboxes have the same ones: from here on they differ.
        ssl.RAND_bytes(1)
    parent = Parent(3)
    return lambda: parent.serve(told)


def reset_signals():
    """Takes handlers off that modules have installed: without them no signal from
    inside reaches the first process of a sandbox (pid_namespaces(7))."""
    for number in _signal.valid_signals():
        if _signal.getsignal(number) not in (_signal.SIG_DFL, _signal.SIG_IGN):
            _signal.signal(number, _signal.SIG_DFL)


def expect(socket, wanted):
    data, fds = receive(socket)
    if data != wanted:
        raise EOFError("the shim said %.100r, not %r" % (data, wanted))
    return fds


def join(namespaces):
    for fd in namespaces:
        call("setns", fd, 0)
        posix.close(fd)
    posix.chdir("/")


def map_ids(line):
    """Gives the user namespace that this process has made its one id
    (user_namespaces(7))."""
    for name, text in ("setgroups", "deny"), ("uid_map", line), ("gid_map", line):
        fd = posix.open("/proc/self/" + name, posix.O_WRONLY | posix.O_CLOEXEC)
        posix.write(fd, text.encode())
        posix.close(fd)


def become_agent(own):
    """Becomes the user that code runs as. Where there is but one id, that is root
    in the container's namespace, and so there is one more, where it is not."""
    if own:
        call("unshare", CLONE_NEWUSER)
        map_ids("%d 0 1" % AGENT)
        return
    posix.setgroups([])
    posix.setresgid(AGENT, AGENT, AGENT)
    posix.setresuid(AGENT, AGENT, AGENT)


def drop_capabilities():
    """Gives all up, for good (capabilities(7))."""
    for capability in range(64):
        try:
            has = call("prctl", PR_CAPBSET_READ, capability, 0, 0, 0)
        except OSError:
            break  # the kernel knows no more
        if has:
            call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    version_3 = 0x20080522
    call("capset", version_3.to_bytes(4, sys.byteorder) + bytes(4), bytes(24))


def load_filter():
    mode_filter = 2
    instructions = len(FILTER) // 8
    kept = type("Filter", (_ctypes.Array,), {"_type_": Char, "_length_": len(FILTER)}).from_buffer_copy(FILTER)
    # struct sock_fprog: a short, what aligns the next, an address.
    size = _ctypes.sizeof(Pointer)
    program = instructions.to_bytes(2, sys.byteorder) + bytes(size - 2) + _ctypes.addressof(kept).to_bytes(size, sys.byteorder)
    call("prctl", PR_SET_SECCOMP, mode_filter, program, 0, 0)


class Pointer(_ctypes._SimpleCData):
    _type_ = "P"


def read_file(name):
    """Reads a file, also one of /proc, which tells no size."""
    fd = posix.open(name, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        parts = [posix.read(fd, 1 << 20)]
        while parts[-1]:
            parts.append(posix.read(fd, 1 << 20))
        return b"".join(parts)
    finally:
        posix.close(fd)
