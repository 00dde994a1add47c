import sys

print("to be seen by nobody")
print("nor this", file=sys.stderr)
