class Parent(Peer):
    """The first process of a sandbox. It forks a child for each call.

    The server, at the other end of its socket, says

        run    code, standard output and standard error are passed along
        stop   the running call is to end: SIGINT, and a moment later SIGKILL

    and is told

        loaded NAME SECONDS | skipped NAME REASON   of modules, before it is ready
        ready VERSION
        started       the child was made and its time begins
        done STATUS   the child's wait status; no process but this one is left

    The server hanging up is this process's end, and so the sandbox's.
    """

    def serve(self, told=()):
        for message in told:
            self.send(message)
        self.send("ready %d.%d.%d" % sys.version_info[:3])
        while True:
            word, fds = self.receive()
            if word == "run":
                self.run(fds)
            # A stop may cross the end of its call.

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
                word, _ = self.receive()
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


def kill_all():
    try:
        posix.kill(-1, _signal.SIGKILL)
    except ProcessLookupError:
        pass
