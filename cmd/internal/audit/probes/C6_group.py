# id: C6
# title: processes that leave the group and go on
# attempts: process group
# seconds: 0.5
# ends: timeout

for n in range(10):
    if os.fork() == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            pass
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
