# id: C5
# title: ten million short lines
# attempts: lines
# output: stdout 20000000

flood(1, b"y\n" * 65536, 20_000_000)
blocked("lines", "sent 10 million lines; the answer must say so")
