# Runs cloche, whose directory is in $PROGRAMS, on a kernel with control groups
# of version 2: as root, and as an ordinary user to whom a group was delegated;
# one to whom none was asks the doctor.
# Each block of output begins with "== USER WHAT".
set -u
export HOME=/run/home CLOCHE_DATA_DIR=/run/home/data
mkdir -m 755 /run/home

cat > /run/config.toml <<'EOF'
[log]
level = "error"
[sandbox]
memory = "300 MB"
work = "20 MB"
tmp = "20 MB"
shm = "20 MB"
pids = 64
cpus = 0.5
preload = []
EOF
cat > /run/memory.py <<'EOF'
held = []
for i in range(40):
    held.append(bytearray(b"x") * (20 << 20))
EOF
cat > /run/forks.py <<'EOF'
import os, time
n = 0
try:
    for i in range(200):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        n += 1
except OSError as e:
    print("forks", n, e.strerror)
EOF
cat > /run/spin.py <<'EOF'
import os, time
start = time.monotonic()
for i in range(3):
    if os.fork() == 0:
        while True:
            pass
time.sleep(4)
def used(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
total = sum(used(p) for p in os.listdir("/proc") if p.isdigit() and p != "1")
print("share", round(total / (time.monotonic() - start), 2))
EOF

cat > /run/crash.py <<'EOF'
import os, resource
for off in (False, True):
    if os.fork() == 0:
        if off:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()
    print("crashed", os.wait()[1] & 127)
EOF
# A program of the host's that the kernel gives core dumps to (core(5)).
cat > /run/handler <<'EOF'
#!/bin/sh
cat > /dev/null
echo "$1" >> /run/cores
EOF
chmod 755 /run/handler
echo '|/run/handler %p' > /proc/sys/kernel/core_pattern

# cores prints how many dumps the handler has had, of how many crashes of its own.
cores() {
	"$@" sh -c 'ulimit -c 0; kill -ABRT $$'
	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ -s /run/cores ] && break
		sleep 0.2
	done
	wc -l < /run/cores
	rm -f /run/cores
}

# check USER PREFIX... runs cloche by way of PREFIX.
check() {
	user=$1
	shift
	echo "== $user doctor"
	"$@" "$PROGRAMS/cloche" --config /run/config.toml doctor
	for what in memory forks spin crash; do
		echo "== $user $what"
		# The prompt goes on after a call that failed: the next one has to work.
		{
			echo "exec('''$(cat "/run/$what.py")''')"
			echo "print('alive')"
		} | sed -e ':a' -e '$!N;s/\n/\\n/;ta' -e "s/\\\\nprint('alive')/\nprint('alive')/" |
			"$@" "$PROGRAMS/cloche" --config /run/config.toml run 2>&1
	done
	echo "== $user cores"
	cores "$@" 2> /dev/null
	echo "== $user left"
	find /sys/fs/cgroup -depth -path '*cloche*/*' -type d
	find /sys/fs/cgroup -name 'cloche-*' -type d
}

check root env
echo "== stranger doctor"
install -d -o 4243 /run/stranger
setpriv --reuid 4243 --regid 4243 --clear-groups env HOME=/run/stranger CLOCHE_DATA_DIR=/run/stranger/data "$PROGRAMS/cloche" doctor
mkdir /sys/fs/cgroup/user /sys/fs/cgroup/user/session
echo "+memory +cpu +pids" > /sys/fs/cgroup/cgroup.subtree_control
chown -R 4242 /sys/fs/cgroup/user /run/home
echo $$ > /sys/fs/cgroup/user/session/cgroup.procs
check user setpriv --reuid 4242 --regid 4242 --clear-groups
