FILE = open("/dev/null")
