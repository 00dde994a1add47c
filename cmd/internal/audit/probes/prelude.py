"""What all probes have: system calls by name, and the lines that they report in.
ID and LIMITS are set before this."""

import ctypes, errno, mmap, os, resource, signal, stat, sys, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
MACHINE = os.uname().machine

# name: number on x86_64, number on aarch64 (None: it has none)
NUMBERS = {
    "add_key": (248, 217), "bpf": (321, 280), "chroot": (161, 51), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "execveat": (322, 281), "finit_module": (313, 273), "fsopen": (430, 430),
    "getpid": (39, 172), "init_module": (175, 105), "inotify_init1": (294, 26), "io_uring_setup": (425, 425),
    "io_setup": (206, 0), "iopl": (172, None), "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "memfd_create": (319, 279), "mlock": (149, 228), "modify_ldt": (154, None),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180),
    "msgget": (68, 186), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pivot_root": (155, 41), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "request_key": (249, 218), "sched_setattr": (314, 274), "seccomp": (317, 277), "semget": (64, 190),
    "setns": (308, 268), "shmget": (29, 194), "syslog": (103, 116), "timer_create": (222, 107),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
}

REFUSED = (errno.EPERM, errno.ENOSYS)
HIDDEN = (errno.ENOENT, errno.EACCES, errno.EPERM)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)


class Absent(Exception):
    """This machine has no such thing."""


def number(name):
    n = NUMBERS[name][0 if MACHINE == "x86_64" else 1]
    if n is None:
        raise Absent("no such call on " + MACHINE)
    return n


def syscall(name, *arguments):
    """Makes a system call, by name or number; raises OSError."""
    n = number(name) if isinstance(name, str) else name
    result = libc.syscall(ctypes.c_long(n), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def say(verdict, name, detail):
    """Reports in one write, so that lines of several processes stay whole."""
    line = "PROBE %s %s %s: %s" % (ID, verdict, name, str(detail).replace("\n", " "))
    os.write(1, line.encode("ascii", "backslashreplace")[:600] + b"\n")


def blocked(name, detail):
    say("blocked", name, detail)


def open_(name, detail):
    say("OPEN", name, detail)


def judge(name, good, detail):
    say("blocked" if good else "OPEN", name, detail)


def name_of(e):
    return errno.errorcode.get(e.errno, "errno %s" % e.errno)


def attempt(name, action, expected=REFUSED):
    """Does what has to fail with an expected error. Any other end, an error of
    another kind too, says that it got past a wall."""
    try:
        result = action()
    except Absent as e:
        blocked(name, e)
    except OSError as e:
        judge(name, e.errno in expected, name_of(e))
    else:
        open_(name, "done: %r" % (result,))


def in_child(action):
    """Runs action in a child; returns its wait status, or raises the OSError
    that action did."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            action()
        except Absent:
            code = 255
        except OSError as e:
            code = e.errno
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    if code == 255:
        raise Absent("no such call on " + MACHINE)
    if code > 0:
        raise OSError(code, os.strerror(code))
    return status


def status_of(pid="self"):
    """The fields of /proc/PID/status."""
    with open("/proc/%s/status" % pid) as f:
        return {key: value.strip() for key, value in (line.split(":", 1) for line in f)}


def machine_code(x86_64, aarch64):
    """A function made of machine code, called with the interpreter's lock held."""
    code = {"x86_64": x86_64, "aarch64": aarch64}[MACHINE]
    if code is None:
        raise Absent("no such instruction on " + MACHINE)
    area = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    function = ctypes.PYFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
    function.area = area
    return function


def mounts():
    """What /proc/self/mountinfo lists: root, point, options, kind, source."""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            before, after = line.rstrip("\n").split(" - ", 1)
            fields, kind = before.split(" "), after.split(" ")
            yield fields[3], fields[4], fields[5].split(","), kind[0], kind[1]


def take_memory(name, more, promised=True):
    """Calls more(bytes) for pieces of memory until the sandbox is ended for it,
    or twice of what is allowed is held for a while. A MemoryError and a full
    disk are limits too. What is not promised to be limited is no hole, and
    shown by a little more than is allowed."""
    piece, held = 8 << 20, 0
    most = LIMITS["memory"] * (2 if promised else 1.25)
    try:
        while held < most:
            more(piece)
            held += piece
    except MemoryError:
        blocked(name, "MemoryError after %d MB of %d allowed" % (held // 10**6, LIMITS["memory"] // 10**6))
        return
    except OSError as e:
        # EFBIG: the limit of one file's size
        judge(name, e.errno in (errno.ENOMEM, errno.ENOSPC, errno.EFBIG), "%s after %d MB of %d allowed" % (name_of(e), held // 10**6, LIMITS["memory"] // 10**6))
        return
    time.sleep(1)
    say("OPEN" if promised else "unpromised", name, "held %d MB, of %d allowed" % (held // 10**6, LIMITS["memory"] // 10**6))


def touch(area):
    """Writes to each page of a writable buffer."""
    area[:: mmap.PAGESIZE] = b"x" * len(range(0, len(area), mmap.PAGESIZE))


def flood(fd, piece, total):
    """Writes about total bytes of pieces; returns how many it were."""
    done = 0
    while done < total:
        done += os.write(fd, piece)
    return done
