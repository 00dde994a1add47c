# id: C2
# title: memory that is allocated and touched
# attempts: touch
# ends: exit 0 or out of memory
# load

held = []
take_memory("touch", lambda n: held.append(bytearray(b"x") * n))
