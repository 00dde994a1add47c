# id: A19
# title: links in place of devices, before the next program starts
# attempts: /dev/null, /dev/console, /dev/pts, /dev itself
# outside

def replace(name):
    """Renames what is there to its own name, which changes nothing; makes a link
    where there is nothing, and removes it again."""
    if os.path.lexists(name):
        os.rename(name, name)
        return "could be renamed"
    os.symlink("/proc/sys/kernel/core_pattern", name)
    os.remove(name)
    return "a link could be put there"

def folder(name):
    if os.path.lexists(name):
        return replace(name)
    os.mkdir(name)
    os.rmdir(name)
    return "could be made"

attempt("/dev/null", lambda: replace("/dev/null"), READ_ONLY)
attempt("/dev/console", lambda: replace("/dev/console"), READ_ONLY)
attempt("/dev/pts", lambda: folder("/dev/pts"), READ_ONLY)
judge("/dev itself", os.statvfs("/dev").f_flag & os.ST_RDONLY and not os.access("/dev", os.W_OK), "flags %#x" % os.statvfs("/dev").f_flag)
