import subprocess


def git(*args):
    return subprocess.run(["git", "-C", "/work/repo", *args], check=True, capture_output=True, text=True).stdout


subprocess.run(["git", "init", "-q", "-b", "main", "/work/repo"], check=True)
git("config", "user.name", "Agent")
git("config", "user.email", "agent@example.com")
for n in range(3):
    with open("/work/repo/file", "a") as f:
        f.write("line %d\n" % n)
    git("add", ".")
    git("commit", "-qm", "change %d" % n)
git("gc", "-q")
git("checkout", "-q", "-b", "other", "HEAD~1")
git("fsck", "--strict")
subprocess.run(["git", "clone", "-q", "/work/repo", "/work/clone"], check=True)
assert git("log", "--format=%s", "main").split("\n")[:3] == ["change 2", "change 1", "change 0"]
assert open("/work/clone/file").read() == "line 0\nline 1\n"
print("well")
