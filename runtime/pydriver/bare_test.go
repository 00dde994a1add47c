package pydriver_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// likeBare are programs of which a call must show the same as bare Python does.
var likeBare = []struct{ name, code string }{
	{"print", `print("hello", 1, [2])`},
	{"empty", ``},
	{"comment", "# nothing"},
	{"standard error", `import sys; print("e", file=sys.stderr)`},

	{"exception", "def f(x):\n    return 1 / x\n\nf(0)\n"},
	{"exception with a cause", "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n"},
	{"exception in a handler", "def f():\n    1/0\ntry:\n    f()\nexcept ZeroDivisionError:\n    {}['k']\n"},
	{"exception without context", "try:\n    1/0\nexcept ZeroDivisionError:\n    raise KeyError('k') from None\n"},
	{"exception group", "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])"},
	{"exception with a note", "e = ValueError(1)\ne.add_note('a note')\nraise e"},
	{"exception of many lines", "raise ValueError(\n    'one',\n    'two',\n)\n"},
	{"syntax error", "x = 1\nif x:\n    y = (\n"},
	{"indentation error", "if True:\nx = 1\n"},
	{"syntax error in a string", "x = 'abc\n"},
	{"late syntax error", "print(1)\nreturn 2\n"},
	{"recursion", "import sys\nsys.setrecursionlimit(200)\ndef f():\n    f()\nf()\n"},
	{"unicode", "# \u00e4\u20ac\U0001f600\nprint('\u00e4\u20ac\U0001f600')\nraise ValueError('\u00e4')\n"},
	{"byte order mark", "\ufeffprint(1)\n"},
	{"coding line", "# -*- coding: utf-8 -*-\nprint('\u00e4')\n"},
	{"carriage returns", "x = 1\r\nif x:\r\n    print(x)\r\n"},
	{"printed traceback", "import traceback\ntry:\n    1/0\nexcept ZeroDivisionError:\n    traceback.print_exc()\n"},
	{"logged exception", "import logging\ntry:\n    1/0\nexcept ZeroDivisionError:\n    logging.exception('x')\n"},
	{"hook", "import sys\nsys.excepthook = lambda t, e, tb: print('hook', t.__name__, tb.tb_lineno)\n1/0\n"},
	{"hook that fails", "import sys\ndef hook(t, e, tb):\n    raise KeyError('hook')\nsys.excepthook = hook\n1/0\n"},
	{"warning", "import warnings\nwarnings.warn('w')\nwarnings.warn('d', DeprecationWarning)\nwarnings.warn('r', ResourceWarning)\n"},

	{"exit", "import sys; sys.exit()"},
	{"exit None", "import sys; sys.exit(None)"},
	{"exit 3", "import sys; sys.exit(3)"},
	{"exit -1", "import sys; sys.exit(-1)"},
	{"exit 256", "import sys; sys.exit(256)"},
	{"exit with a text", "import sys; sys.exit('text')"},
	{"exit with a number that is none", "import sys; sys.exit(2.5)"},
	{"exit with True", "import sys; sys.exit(True)"},
	{"raise SystemExit", "raise SystemExit(4)"},
	{"builtin exit", "exit(5)"},
	{"exit in a function", "import sys\ndef f():\n    try:\n        sys.exit(6)\n    finally:\n        print('finally')\nf()\n"},
	{"exit in a thread", "import sys, threading\nt = threading.Thread(target=sys.exit, args=(7,))\nt.start(); t.join()\nprint('on')\n"},
	{"os._exit", "import os; os._exit(8)"},
	{"abort", "import os; os.abort()"},
	{"signal 15", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"},
	{"signal 9", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"},
	{"null pointer", "import ctypes; ctypes.string_at(0)"},
	{"stdout closed", "import sys; print('x'); sys.stdout.close()"},
	{"no stderr", "import sys; sys.stderr = None; 1/0"},
	{"no stdout", "import sys; sys.stdout = None; print('x')"},

	{"threads are joined", "import threading, time\ndef f():\n    time.sleep(0.2)\n    print('thread')\nthreading.Thread(target=f).start()\nprint('main')\n"},
	{"daemon threads are not", "import threading, time\ndef f():\n    time.sleep(100)\n    print('thread')\nthreading.Thread(target=f, daemon=True).start()\nprint('main')\n"},
	{"daemon threads are silent at the end", "import threading, time\nlive = [1]\ndef f():\n    while live:\n        time.sleep(0.001)\nfor _ in range(5):\n    threading.Thread(target=f, daemon=True).start()\ntime.sleep(0.05)\n"},
	{"exception in a thread", "import threading\nt = threading.Thread(target=lambda: 1/0, name='t')\nt.start(); t.join()\nprint('on')\n"},
	{"atexit", "import atexit\natexit.register(print, 'first'); atexit.register(print, 'second')\nprint('main')\n"},
	{"atexit after an exception", "import atexit\natexit.register(print, 'at exit')\n1/0\n"},
	{"atexit after exit", "import atexit, sys\natexit.register(print, 'at exit')\nsys.exit(3)\n"},
	{"unflushed output", "import sys; sys.stdout.write('no line end'); sys.stderr.write('neither')"},
	{"unflushed file", "f = open('/dev/stdout', 'w')\nf.write('kept')\n"},
	{"unclosed gzip", "import gzip, os\ng = gzip.open('x.gz', 'wb'); g.write(b'x')\nif os.fork() == 0:\n    pass\nelse:\n    os.wait(); print(os.path.getsize('x.gz') > 20)\n"},
	{"finalizer", "class A:\n    def __del__(self):\n        print('gone')\na = A()\n"},
	{"weakref.finalize", "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalized')\n"},
	{"generator", "def g():\n    try:\n        yield 1\n    finally:\n        print('closed')\nx = g(); next(x)\n"},

	{"main", "if __name__ == '__main__':\n    print(__name__)\n"},
	{"future", "from __future__ import annotations\ndef f(x: undefined): pass\nprint(f.__annotations__)\n"},
	{"future after a docstring", "'doc'\nfrom __future__ import annotations\nx: undefined = 1\nprint(__doc__, __annotations__)\n"},
	{"future too late", "x = 1\nfrom __future__ import annotations\n"},
	{"assert", "assert 1 == 2, 'message'"},
	{"own module", "open('mymodule.py', 'w').write('def f():\\n    return 1/0\\n')\nimport mymodule\nmymodule.f()\n"},
	{"pickle of a class", "import pickle\nclass A:\n    def __init__(self): self.x = 1\nprint(pickle.loads(pickle.dumps(A())).x)\n"},
	{"dataclass", "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\nprint(A())\n"},
	{"source of a function", "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))\n"},
	{"type hints", "import typing\nclass A: pass\ndef f(a: 'A'): pass\nprint(typing.get_type_hints(f))\n"},
	{"globals of main", "import __main__\nprint(__main__ is not None, __main__.__dict__ is globals(), __package__, __spec__, __name__)\n"},
	{"asyncio", "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 1\nprint(asyncio.run(f()))\n"},
	{"asyncio subprocess", "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n    return await p.communicate()\nprint(asyncio.run(f()))\n"},
	{"subprocess", "import subprocess\nprint(subprocess.run(['sh', '-c', 'echo out; echo err >&2; exit 3'], capture_output=True))\n"},
	{"subprocess to our output", "import subprocess, sys\nprint('before', flush=True)\nsubprocess.run(['echo', 'child'])\nprint('after')\n"},
	{"subprocess of Python", "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout)\n"},
	{"shell", "import os; print(os.system('exit 3') >> 8, os.popen('echo x').read())"},
	{"pool of processes", "from multiprocessing import Pool\ndef f(x): return x * x\nif __name__ == '__main__':\n    with Pool(3) as p:\n        print(p.map(f, range(5)))\n"},
	{"process with a queue", "import multiprocessing as m\ndef f(q): q.put(1)\nq = m.Queue(); p = m.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)\n"},
	{"spawned process", "import multiprocessing\ndef f(q): q.put(1)\nif __name__ == '__main__':\n    m = multiprocessing.get_context('spawn'); q = m.Queue(); p = m.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)\n"},
	{"process of a fork server", "import multiprocessing\ndef f(q): q.put(1)\nif __name__ == '__main__':\n    m = multiprocessing.get_context('forkserver'); q = m.Queue(); p = m.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)\n"},
	{"executor of processes", "from concurrent.futures import ProcessPoolExecutor\ndef f(x): return x + 1\nwith ProcessPoolExecutor(2) as e: print(list(e.map(f, range(3))))\n"},
	{"executor of threads", "from concurrent.futures import ThreadPoolExecutor\ne = ThreadPoolExecutor(2)\nprint(list(e.map(abs, [-1, 2])))\n"},
	{"fork", "import os\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0)\n    print('parent')\n"},
	{"dev stdout", "open('/dev/stdout', 'w').write('a\\n')\nopen('/dev/stderr', 'w').write('b\\n')\nopen('/dev/fd/1', 'w').write('c\\n')\n"},
	{"standard input", "import sys; print(repr(sys.stdin.read()), sys.stdin.isatty())"},
	{"signal handler", "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('got', a[0]))\nos.kill(os.getpid(), signal.SIGUSR1)\n"},
	{"alarm", "import signal, time\nsignal.signal(signal.SIGALRM, lambda *a: print('alarm'))\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(0.2)\n"},
	{"children are waited for", "import os, signal\npid = os.fork()\nif pid == 0: os._exit(3)\nprint(os.waitpid(pid, 0)[1] >> 8, signal.getsignal(signal.SIGCHLD).name)\n"},
	{"garbage", "import gc, weakref\nclass A: pass\na = A(); a.a = a; w = weakref.ref(a); del a\nprint(gc.collect() > 0, w())\n"},
}

// alike leaves out what is not alike in two processes: addresses, the working
// directory, and how deep the stack is when a program starts.
func alike(text string) string {
	text = regexp.MustCompile(`0x[0-9a-f]+`).ReplaceAllString(text, "0x")
	text = regexp.MustCompile(`repeated \d+ more`).ReplaceAllString(text, "repeated many more")
	return strings.ReplaceAll(text, "/work/", "")
}

func TestLikeBarePython(t *testing.T) {
	b := preloaded(t, "traceback")
	for _, tt := range likeBare {
		t.Run(tt.name, func(t *testing.T) {
			code := tt.code + "\npass\n" // the value of a last expression is shown by calls alone
			want, got := bare(t, b, code), b.Run(code)
			got.Duration = 0
			for _, r := range []*sandboxtest.Result{&want, &got} {
				r.Err = alike(r.Err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("against bare Python (-bare +call):\n%s", diff)
			}
			b.Clean()
		})
	}
}
