# id: C5
# title: one line without end
# attempts: a line
# output: stdout 500000000
# load

flood(1, b"x" * (1 << 20), 500_000_000)
print()
blocked("a line", "sent a line of 500 MB; the answer must say so")
