# id: E2
# title: a crash in the interpreter
# attempts: faulthandler
# ends: signal 11

import faulthandler
faulthandler.enable()
faulthandler._sigsegv()
