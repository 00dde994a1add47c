# id: E2
# title: an end by exception
# attempts: sys.exit
# ends: exit 4

import atexit
atexit.register(lambda: 1 / 0)
sys.exit(4)
