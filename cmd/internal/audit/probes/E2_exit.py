# id: E2
# title: an end in the middle
# attempts: os._exit
# ends: exit 3

os._exit(3)
