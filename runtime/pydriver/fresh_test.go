package pydriver_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// A property is something that code can find out about its process. In a call
// it is as in a bare process; or, if it is fresh, another in each of both; or it
// is different by decision, and then want is its value and why says so.
type property struct {
	name, expr string
	fresh      bool
	want, why  string
}

// properties are those of every process; the expressions are Python.
var properties = []property{
	{name: "flags", expr: `list(sys.flags)`},
	{name: "executable", expr: `[sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.version]`},
	{name: "argv", expr: `sys.argv`, want: `[""]`, why: "there is no script; as if the code came from standard input"},
	{name: "orig_argv", expr: `sys.orig_argv`, want: `["/usr/bin/python3"]`, why: "the parent's own script is nothing to the code"},
	{name: "path", expr: `sys.path[1:]`},
	{name: "first of path", expr: `sys.path[0]`, want: `""`, why: "the working directory, as if the code came from standard input"},
	{name: "importers", expr: `[[str(m).split(" at ")[0] for m in sys.meta_path], [str(h).split(" at ")[0] for h in sys.path_hooks]]`},
	{name: "warn options", expr: `[sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.pycache_prefix]`},
	{name: "recursion limit", expr: `[sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()]`},
	{name: "encodings", expr: `[sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.getdefaultencoding()]`},
	{name: "hooks", expr: `[sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is sys.__unraisablehook__, sys.breakpointhook is sys.__breakpointhook__, threading.excepthook is threading.__excepthook__]`},
	{name: "hook of threads", expr: `type(threading.excepthook).__name__`, want: `"function"`, why: "tracebacks of threads show the lines of code that is in no file"},
	{name: "tracing", expr: `[sys.gettrace(), sys.getprofile(), sys.get_coroutine_origin_tracking_depth(), tracemalloc.is_tracing(), faulthandler.is_enabled()]`},
	{name: "interactive", expr: `[hasattr(sys, "ps1"), hasattr(sys, "last_type"), hasattr(builtins, "_")]`},
	{name: "standard input", expr: `stream(sys.stdin) + [sys.stdin.read(), sys.stdin is sys.__stdin__]`},
	{name: "standard output", expr: `stream(sys.stdout) + [sys.stdout is sys.__stdout__]`},
	{name: "standard error", expr: `stream(sys.stderr) + [sys.stderr is sys.__stderr__]`},
	{name: "buffering", expr: `[sys.stdout.line_buffering, sys.stderr.line_buffering, sys.stdout.write_through]`, want: `[true, true, false]`, why: "what was printed is to be there also when the process is killed"},
	{name: "builtins", expr: `sorted(dir(builtins))`},
	{name: "input", expr: `type(builtins.input).__name__`, want: `"function"`, why: "it says what to do instead"},
	{name: "globals", expr: `sorted(set(globals()) - {"__annotations__", "__cached__"})`},
	{name: "main", expr: `[__name__, __spec__, __doc__, __package__, sys.modules["__main__"].__dict__ is globals(), __builtins__ is builtins]`},
	{name: "file", expr: `__file__`, want: `"/tmp/home/.cell.py"`, why: "where processes that multiprocessing spawns find it"},
	{name: "loader", expr: `type(__loader__).__name__`, want: `"Source"`, why: "tracebacks and inspect get the lines from it"},

	{name: "signal handlers", expr: `{s.name: str(signal.getsignal(s)) for s in signal.Signals if "0x" not in str(signal.getsignal(s))}`},
	{name: "SIGINT", expr: `signal.getsignal(signal.SIGINT) is signal.default_int_handler`},
	{name: "signal masks", expr: `[status["SigBlk"], status["SigIgn"], status["SigCgt"], status["SigPnd"], status["ShdPnd"]]`},
	{name: "timers", expr: `[signal.set_wakeup_fd(-1), signal.getitimer(signal.ITIMER_REAL), signal.getitimer(signal.ITIMER_PROF), signal.alarm(0)]`},
	{name: "warnings", expr: `[[str(f) for f in warnings.filters], warnings.defaultaction, str(warnings.showwarning)[:20], len(warnings.onceregistry)]`},
	{name: "working directory", expr: `os.getcwd()`, want: `"/work"`, why: "the place that is the call's"},
	{name: "umask", expr: `[os.umask(0o22), os.umask(0o22)]`},
	{name: "priority", expr: `[os.nice(0), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)]`},
	{name: "processors", expr: `sorted(os.sched_getaffinity(0))`},
	{name: "session", expr: `[os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()]`, want: `[true, true]`, why: "a session of its own, so that nothing outside of the call gets its signals"},
	{name: "parent", expr: `os.getppid()`, want: `1`, why: "it is the first process of the sandbox"},
	{name: "user", expr: `[os.getuid(), os.getgid(), [g for g in os.getgroups() if g not in (1000, 65534)]]`, want: `[1000, 1000, []]`, why: "uid 1000 in each sandbox"},
	{name: "oom_score_adj", expr: `int(open("/proc/self/oom_score_adj").read())`, want: `500`, why: "the kernel is to end the code, not its parent"},
	{name: "dumpable", expr: `[prctl(3), prctl(2), prctl(7), prctl(30)]`}, // PR_GET_DUMPABLE, _PDEATHSIG, _KEEPCAPS, _TIMERSLACK
	{name: "no_new_privs", expr: `[prctl(39), prctl(21)]`, want: `[1, 2]`, why: "no privileges, and a filter of system calls"},
	{name: "comm", expr: `open("/proc/self/comm").read()`},
	{name: "own files in proc", expr: `[len(open("/proc/self/environ").read()) > 0, os.access("/proc/self/mem", os.R_OK), len(os.listdir("/proc/self/fd"))]`},
	{name: "descriptors", expr: `[[fd, fcntl.fcntl(fd, fcntl.F_GETFD), fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK] for fd in range(4096) if opened(fd)]`},
	{name: "core dumps", expr: `resource.getrlimit(resource.RLIMIT_CORE)`, want: `[1, 1]`, why: "the host's handler of core dumps is not to see the sandbox"},
	{name: "time used", expr: `[resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.process_time() < 1]`},
	{name: "locale", expr: `[locale.getlocale(), locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), locale.localeconv()]`},
	{name: "time zone", expr: `[time.tzname, time.timezone, time.daylight]`},
	{name: "threads", expr: `[threading.active_count(), threading.current_thread() is threading.main_thread(), threading.current_thread().name, threading.get_ident() == threading.main_thread().ident, threading.get_native_id() == os.getpid(), threading.stack_size(), status["Threads"]]`},
	{name: "exit functions", expr: `atexit._ncallbacks()`},
	{name: "collector", expr: `[gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks), len(gc.garbage)]`},
	{name: "frozen objects", expr: `gc.get_freeze_count() > 1000`, want: `true`, why: "collecting does not walk, and so copy, what the parent has made"},
	{name: "depth of the stack", expr: `len(inspect.stack()) < 10`},
	{name: "logging", expr: `[logging.root.level, logging.root.handlers, logging.root.manager.disable, logging.lastResort.level]`},
	{name: "decimal", expr: `str(decimal.getcontext())`},
	{name: "sockets", expr: `socket.getdefaulttimeout()`},
	{name: "temporary directory", expr: `tempfile.gettempdir()`},
	{name: "multiprocessing", expr: `[multiprocessing.get_start_method(), multiprocessing.current_process().name, multiprocessing.current_process().pid == os.getpid(), multiprocessing.parent_process(), len(multiprocessing.active_children())]`},

	{name: "random", expr: `random.random()`, fresh: true},
	{name: "random state", expr: `hash(random.getstate())`, fresh: true},
	{name: "entropy", expr: `[os.urandom(8).hex(), secrets.token_hex(8), str(uuid.uuid4())]`, fresh: true},
	{name: "temporary names", expr: `next(tempfile._get_candidate_names())`, fresh: true},
	{name: "authkey", expr: `multiprocessing.current_process().authkey.hex()`, fresh: true},
	{name: "process id", expr: `os.getpid()`, fresh: true},
	{name: "identity of a socket", expr: `uuid.uuid1().hex`, fresh: true},
}

// withModules are properties of processes in which the modules of a usual
// preload list have been imported.
var withModules = []property{
	{name: "warnings", expr: `[str(f) for f in warnings.filters]`},
	{name: "exit functions", expr: `atexit._ncallbacks()`},
	{name: "signal masks", expr: `[status["SigBlk"], status["SigIgn"], int(status["SigCgt"], 16) & 0x7fffffff]`}, // without those of libc itself
	{name: "descriptors", expr: `[[fd, fcntl.fcntl(fd, fcntl.F_GETFD)] for fd in range(4096) if opened(fd)]`},
	{name: "numpy's settings", expr: `[numpy.geterr(), {k: str(v) for k, v in numpy.get_printoptions().items()}, numpy.getbufsize()]`},
	{name: "pandas' settings", expr: `{k: str(pandas.get_option(k)) for k in pandas._config.config._registered_options if k.startswith(("display", "compute"))}`},
	{name: "rcParams", expr: `{k: str(v) for k, v in matplotlib.rcParams.items()}`},
	{name: "matplotlib", expr: `[matplotlib.get_backend(), matplotlib.is_interactive(), plt.get_fignums(), matplotlib.get_configdir(), matplotlib.get_cachedir()]`},
	{name: "logging", expr: `[logging.root.level, logging.root.handlers, sorted(n for n, l in logging.root.manager.loggerDict.items() if getattr(l, "level", 0))]`},
	{name: "hooks", expr: `[sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, threading.excepthook is threading.__excepthook__]`},
	{name: "locale", expr: `locale.setlocale(locale.LC_ALL)`},
	{name: "sum of squares", expr: `float((numpy.arange(300.0 * 300).reshape(300, 300) @ numpy.ones(300)).sum())`},

	{name: "numpy's random numbers", expr: `numpy.random.rand()`, fresh: true},
	{name: "numpy's random state", expr: `hash(numpy.random.get_state()[1].tobytes())`, fresh: true},
	{name: "numpy's generators", expr: `[numpy.random.default_rng().random(), numpy.random.RandomState().rand()]`, fresh: true},
	{name: "pandas' samples", expr: `pandas.Series(range(10**6)).sample(3).tolist()`, fresh: true},
	{name: "random", expr: `random.random()`, fresh: true},
}

// imported are the modules of properties, of which the second list needs more.
const imported = `
import atexit, builtins, ctypes, decimal, faulthandler, fcntl, gc, inspect, json, locale, logging, multiprocessing, os, random
import resource, secrets, signal, socket, sys, tempfile, threading, time, tracemalloc, uuid, warnings
`

// probe prints the values of properties. Its names begin with an underscore or
// are the properties' helpers; "globals" compares them too.
const probe = `
def stream(f):
    return [f.encoding, f.errors, f.newlines, f.fileno(), f.isatty(), f.mode, f.name, f.closed]
def opened(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False
_prctl = ctypes.CDLL(None).prctl
def prctl(option):
    if option in (2,):
        value = ctypes.c_int(0)
        _prctl(option, ctypes.byref(value))
        return value.value
    return _prctl(option, 0, 0, 0, 0)
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
_values = {}
for _name, _expr in json.loads(%q):
    try:
        _values[_name] = eval(_expr)
    except Exception as _e:
        _values[_name] = "ERROR " + repr(_e)
print(json.dumps(_values, default=repr), file=sys.__stdout__)
`

func TestFreshness(t *testing.T) {
	compareWithBare(t, preloaded(t, "traceback"), imported, properties)
}

func TestFreshnessWithModules(t *testing.T) {
	b := preloaded(t, "numpy", "pandas", "matplotlib.pyplot")
	compareWithBare(t, b, imported+"\nimport numpy, pandas, matplotlib, matplotlib.pyplot as plt\n", withModules)
}

// TestPreloadLeavesNoFiles: what imports write, as matplotlib its list of
// fonts, is not to be there for a call.
func TestPreloadLeavesNoFiles(t *testing.T) {
	b := preloaded(t, "numpy", "pandas", "matplotlib.pyplot")
	const list = `
import os
print([os.path.join(d, f) for top in ("/work", "/tmp", "/dev/shm") for d, _, files in os.walk(top) for f in files if f != ".cell.py"])
`
	if got := b.Print(list); got != "[]\n" {
		t.Errorf("files at the first call: %s", got)
	}
}

// compareWithBare finds out the properties of two calls and of two bare
// processes.
func compareWithBare(t *testing.T, b *sandboxtest.Box, imports string, all []property) {
	t.Helper()
	var list [][2]string
	for _, p := range all {
		list = append(list, [2]string{p.name, p.expr})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	code := imports + fmt.Sprintf(probe, text)
	decode := func(r sandboxtest.Result) map[string]json.RawMessage {
		t.Helper()
		var values map[string]json.RawMessage
		if err := json.Unmarshal([]byte(r.Out), &values); err != nil || r.Err != "" {
			t.Fatalf("properties: %v, %+v", err, r)
		}
		return values
	}
	first := decode(b.Run(code))
	b.Clean()
	calls := [2]map[string]json.RawMessage{first, decode(b.Run(code))}
	bares := [2]map[string]json.RawMessage{decode(bare(t, b, code)), decode(bare(t, b, code))}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			call, other := string(calls[0][p.name]), string(calls[1][p.name])
			alone, other2 := string(bares[0][p.name]), string(bares[1][p.name])
			switch {
			case call == "" || len(call) > 6 && call[:6] == `"ERROR`:
				t.Errorf("cannot be found out: %s", call)
			case p.fresh && (call == other || alone == other2):
				t.Errorf("two calls: %s, %s, two bare processes: %s, %s; want a difference in each", call, other, alone, other2)
			case p.fresh:
			case call != other:
				t.Errorf("two calls: %s, %s, want the same", call, other)
			case p.want == "" && call != alone:
				t.Errorf("call: %s\nbare: %s", call, alone)
			case p.want != "" && call != p.want:
				t.Errorf("call: %s, want by decision (%s): %s", call, p.why, p.want)
			case p.want != "" && p.want == alone && p.why == "":
				t.Errorf("is no difference: %s", call)
			}
		})
	}
}
