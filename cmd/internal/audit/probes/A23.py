# id: A23
# title: programs from memory, which may run and are still inside
# attempts: memfd_create and execveat, /dev/shm
# outside

import shutil, subprocess

with open("/usr/bin/cat", "rb") as f:
    cat = f.read()

def inside(name, run):
    """Has run execute a program that shows its own status."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 1)
        try:
            run([b"cat", b"/proc/self/status"])
        finally:
            os._exit(99)
    os.close(write)
    with open(read) as f:
        have = {k: v.strip() for k, v in (line.split(":", 1) for line in f)}
    os.waitpid(pid, 0)
    told = {k: have.get(k) for k in ("Uid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}
    judge(name, told == {"Uid": "1000\t1000\t1000\t1000", "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}, "it runs with %s" % told)

fd = os.memfd_create("cat")
os.write(fd, cat)
def from_memory(words):
    arguments = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    syscall("execveat", fd, b"", arguments, (ctypes.c_char_p * 1)(None), 0x1000)
inside("memfd_create and execveat", from_memory)

path = "/dev/shm/cloche-audit-%d" % os.getpid()
with open(path, "wb") as f:
    f.write(cat)
os.chmod(path, 0o700)
inside("/dev/shm", lambda words: os.execv(path, words))
os.remove(path)
