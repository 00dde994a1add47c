# Without it threading prints tracebacks in Python, which finds the lines.
del _thread._excepthook
PATH = sys.path[1:]
if __name__ == "__main__":
    gc.freeze()
    try:
        if sys.argv[1:] == ["template"]:
            FILTER = read_file(sys.path[0] + "/filter")  # beside this program
            try:
                posix.mkdir("/tmp/home", 0o755)
            except FileExistsError:
                pass
            task = Template(3).serve
        else:
            set_dumpable(0)
            task = Parent(3).serve
        # A process that is forked for something else begins it here, with nothing
        # on its stack.
        while True:
            task = task()
    except BaseException as e:
        complain(e)
    finally:
        posix._exit(1)
