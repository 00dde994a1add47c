# id: C3
# title: all processors' time
# attempts: spin
# seconds: 10
# load

# In twenty processes, each as well placed as it can make itself.
length, count = 2.0, 20
cores = os.cpu_count()
start = time.monotonic()
for n in range(count):
    if os.fork() == 0:
        try:
            os.sched_setaffinity(0, {n % cores})
        except OSError:
            pass
        while time.monotonic() - start < length:
            pass
        os._exit(0)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
took = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
share = (used.ru_utime + used.ru_stime) / took
if LIMITS["cpus"] is None:
    say("unpromised", "spin", "had %.2f processors; none are promised to be kept from it" % share)
else:
    # A period of the limit more than its share may be had at either end.
    judge("spin", share < LIMITS["cpus"] * 1.2 + 0.1, "had %.2f processors, of %.2f allowed" % (share, LIMITS["cpus"]))
