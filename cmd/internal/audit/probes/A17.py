# id: A17
# title: files that run as somebody else
# attempts: no such mounts, setuid and setgid, owner, file capabilities
# outside

import shutil, subprocess, tempfile

places = [p for p in ("/work", "/tmp", "/dev/shm", "/", "/usr") if os.path.isdir(p)]
other = [p for p in places if not os.statvfs(p).f_flag & os.ST_NOSUID]
judge("no such mounts", not other, "of %s, obeyed on: %s" % (places, other))

folder = tempfile.mkdtemp(dir="/work" if os.access("/work", os.W_OK) else None)
program = folder + "/id"
shutil.copy("/usr/bin/id", program)
try:
    os.chown(program, 0, 0)
except OSError as e:
    judge("owner", e.errno in (errno.EPERM, errno.EINVAL), name_of(e))
else:
    open_("owner", "the file is root's now")
os.chmod(program, 0o6755)
ids = [subprocess.run([program, flag], capture_output=True, text=True).stdout.strip() for flag in ("-u", "-g")]
judge("setuid and setgid", ids == ["1000", "1000"], "it ran as %s" % ids)
os.chmod(program, 0o755)
everything = (0x03000001).to_bytes(4, "little") + b"\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00" + bytes(4)
attempt("file capabilities", lambda: os.setxattr(program, "security.capability", everything), (errno.EPERM, errno.ENOTSUP))
shutil.rmtree(folder)
