# id: C6
# title: a loop without end
# attempts: infinite loop
# seconds: 0.5
# ends: timeout

while True:
    pass
