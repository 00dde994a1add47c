# id: C5
# title: a flood of output
# attempts: stdout
# output: stdout 500000000
# load

flood(1, b"0123456789abcde\n" * 65536, 500_000_000)
blocked("stdout", "sent 500 MB; the answer must say so")
