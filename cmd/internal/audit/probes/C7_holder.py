# id: C7
# title: children that hold the output
# attempts: child that holds stdout, setsid

import subprocess

for new in False, True:
    p = subprocess.Popen(["/usr/bin/sleep", "600"], start_new_session=new)
    blocked("setsid" if new else "child that holds stdout", "process %d; it must end with the call" % p.pid)
