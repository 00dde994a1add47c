# id: C5
# title: bytes that are no text
# attempts: NUL, invalid UTF-8, ANSI
# output: stdout 9000000

pieces = {
    "NUL": bytes(1 << 20),
    "invalid UTF-8": b"\xff\xfe\xed\xa0\x80\xc0\xaf" * (1 << 16),
    "ANSI": b"\x1b[2J\x1b[31m\x1b]0;title\x07\x1b[1A\x9b\r" * (1 << 14),
}
for piece in pieces.values():
    flood(1, piece, 3_000_000)
    print()
for name in pieces:  # in the end, which is shown
    blocked(name, "sent 3 MB; the answer must say so")
