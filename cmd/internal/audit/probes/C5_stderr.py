# id: C5
# title: a flood of errors
# attempts: stderr
# output: stderr 500000000
# load

flood(2, b"0123456789abcde\n" * 65536, 500_000_000)
blocked("stderr", "sent 500 MB; the answer must say so")
