import subprocess

print(subprocess.check_output(["bash", "-euo", "pipefail", "-c", r"""
cd /work
mkdir -p a/b && printf 'x\ny\n' >a/b/c.txt && chmod 600 a/b/c.txt && ln -s c.txt a/b/link
tar -czf a.tar.gz a && rm -r a && tar -xzf a.tar.gz && [ "$(wc -l <a/b/c.txt)" = 2 ]
find . -name '*.txt' -print0 | xargs -0 grep -c y | diff - <(echo 1)
awk 'BEGIN { print 6 * 7 }' | sed s/42/answer/ | sort -u | tee /dev/stderr | grep -q answer
sleep 60 & kill $! && ! wait $!
[ "$(id -u)" = 1000 ] && [ "$HOME" = /tmp/home ] && touch "$HOME/file"
exec 3<>/dev/tcp/127.0.0.1/1 2>/dev/null || echo well
"""], text=True, stderr=subprocess.DEVNULL), end="")
