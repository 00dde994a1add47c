# id: A10
# title: files by their handles, past all mounts
# attempts: name_to_handle_at, open_by_handle_at
# outside

class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]
handle, mount = Handle(size=128), ctypes.c_int()
attempt("name_to_handle_at", lambda: syscall("name_to_handle_at", -100, b"/usr", ctypes.byref(handle), ctypes.byref(mount), 0))

# The root of the file system that /usr is on has inode 2, as "shocker" knew.
root = Handle(size=8, kind=1)
root.bytes[0] = 2
usr = os.open("/usr", os.O_RDONLY)
attempt("open_by_handle_at", lambda: os.close(syscall("open_by_handle_at", usr, ctypes.byref(root), os.O_RDONLY)))
