package pydriver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

func TestLastExpression(t *testing.T) {
	b := start(t)
	for _, tt := range []struct{ name, code, want string }{
		{"sum", "1+1", "2\n"},
		{"text", "'a'", "'a'\n"},
		{"none", "None", ""},
		{"call without a value", "print('x')", "x\n"},
		{"assignment", "x = 1", ""},
		{"only the last", "1\n2\n3", "3\n"},
		{"on one line", "1; 2", "2\n"},
		{"not the last", "1\nx = 2", ""},
		{"after output", "print('a')\n'b'", "a\n'b'\n"},
		{"statement with a body", "if True:\n    1", ""},
		{"docstring", "'doc'", "'doc'\n"},
		{"after a future import", "from __future__ import annotations\n(lambda: 1)()", "1\n"},
		{"many lines", "[\n  1,\n  2,\n]", "[1, 2]\n"},
		{"own hook", "import sys\nsys.displayhook = lambda v: print('hook', v)\n1", "hook 1\n"},
		{"trailing comment", "1+1  # two\n# end\n", "2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := b.Print(tt.code); got != tt.want {
				t.Errorf("%q shows %q, want %q", tt.code, got, tt.want)
			}
		})
	}
	r := b.Run("x = 1\n1 / 0")
	if want := "Traceback (most recent call last):\n  File \"cell.py\", line 2, in <module>\n    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero\n"; r.Err != want || r.Code != 1 {
		t.Errorf("last expression that fails: %+v, want exit 1 and %q", r, want)
	}
}

// TestDecidedEnds are ends that bare Python has otherwise.
func TestDecidedEnds(t *testing.T) {
	b := start(t)
	for _, tt := range []struct {
		name, code string
		want       func(r sandboxtest.Result) bool
	}{
		{"interrupt of its own", "raise KeyboardInterrupt", func(r sandboxtest.Result) bool { return r.Code == 1 && strings.Contains(r.Err, "KeyboardInterrupt") }},
		{"null byte", "x = 1\n\x00", func(r sandboxtest.Result) bool { return r.Code == 1 && strings.Contains(r.Err, "null bytes") }},
		{"not UTF-8", "x = '\xff'", func(r sandboxtest.Result) bool { return r.Code == 1 && strings.Contains(r.Err, "UnicodeDecodeError") }},
		{"input", "input('name?')", func(r sandboxtest.Result) bool {
			return r.Code == 1 && strings.Contains(r.Err, "EOFError: input() has nobody to ask") && r.Out == ""
		}},
		{"stderr closed", "import sys; sys.stderr.close(); 1/0", func(r sandboxtest.Result) bool { return r.Code == 1 }},
		{"stderr closed, exit with a text", "import sys; sys.stderr.close(); sys.exit('text')", func(r sandboxtest.Result) bool { return r.Code == 1 }},
		{"output closed below", "import os; os.close(1); print('x')", func(r sandboxtest.Result) bool { return r.Code == 1 && strings.Contains(r.Err, "Bad file descriptor") }},
		{"all closed", "import os; os.closerange(0, 1 << 16)", func(r sandboxtest.Result) bool { return r.Code == 0 || r.Code == 120 }},
		{"all closed, failing", "import os; os.closerange(0, 1 << 16); 1/0", func(r sandboxtest.Result) bool { return r.Code == 1 || r.Code == 120 }},
		{"parent's file is not shown", "import traceback; traceback.print_exc(); 1/0", func(r sandboxtest.Result) bool { return !strings.Contains(r.Err, "parent.py") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := b.Run(tt.code); !got.Plain() || !tt.want(got) {
				t.Errorf("%q: %+v", tt.code, got)
			}
			b.Works()
		})
	}
}

func TestLargeCode(t *testing.T) {
	b := start(t)
	const size = 4_000_000
	text := b.Print("x = '" + strings.Repeat("a", size) + "'\nlen(x)")
	if text != fmt.Sprintln(size) {
		t.Errorf("a string of %d bytes: %q", size, text)
	}
	lines := strings.Repeat("# a comment of forty characters or so \n", size/39)
	r := b.Run(lines + "1/0")
	if want := fmt.Sprintf("line %d, in <module>", size/39+1); !strings.Contains(r.Err, want) {
		t.Errorf("error at the end: %q, want it to say %q", r.Err, want)
	}
	if got := b.Print("x = [\n" + strings.Repeat("1234, 5678, 9012,\n", 100_000) + "]\nlen(x)"); got != "300000\n" {
		t.Errorf("a long list has %q elements, want 300000", got)
	}
}

func TestTimeLimit(t *testing.T) {
	b := start(t)
	const limit = time.Second
	for _, tt := range []struct {
		name, code string
		out, err   string        // parts of what was written
		most       time.Duration // beyond the limit
	}{
		{"loop", "print('begun')\nwhile True: pass", "begun\n", "line 2, in <module>", 500 * time.Millisecond},
		{"sleep", "import time\ntime.sleep(100)", "", "KeyboardInterrupt", 500 * time.Millisecond},
		{"partial line", "import sys, time\nsys.stdout.write('part')\ntime.sleep(100)", "part", "KeyboardInterrupt", 500 * time.Millisecond},
		{"clears up", "import time\ntry:\n    time.sleep(100)\nfinally:\n    print('cleared')", "cleared\n", "KeyboardInterrupt", 500 * time.Millisecond},
		{"clears up too long", "import time\ntry:\n    time.sleep(100)\nfinally:\n    print('clearing', flush=True)\n    time.sleep(100)", "clearing\n", "", time.Second},
		{"ignores SIGINT", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun')\nwhile True: pass", "begun\n", "", time.Second},
		{"blocks all signals", "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.Signals)\nprint('begun')\nwhile True: pass", "begun\n", "", time.Second},
		{"catches all", "print('begun')\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass", "begun\n", "", time.Second},
		{"loop in C", "print('begun')\nsum(range(10**15))", "begun\n", "", time.Second},
		{"regular expression", "import re\nprint('begun')\nre.match('(a*)*b', 'a' * 64)", "begun\n", "", time.Second},
		{"threads", "import threading, time\nfor _ in range(20): threading.Thread(target=time.sleep, args=(100,)).start()\nprint('begun')", "begun\n", "", time.Second},
		{"stops itself", "import os, signal\nprint('begun')\nos.kill(os.getpid(), signal.SIGSTOP)", "begun\n", "", time.Second},
		{"waits for a child", "import subprocess\nprint('begun')\nsubprocess.run(['sleep', '100'])", "begun\n", "KeyboardInterrupt", 500 * time.Millisecond},
		{"exit function", "import atexit, time\natexit.register(time.sleep, 100)\nprint('begun')", "begun\n", "", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := b.RunFor(limit, tt.code)
			if !got.TimedOut || got.Stopped || got.Lost != "" || got.Signal != 0 || got.Code != 0 {
				t.Errorf("%+v, want the time limit alone", got.Exit)
			}
			if !strings.Contains(got.Out, tt.out) || !strings.Contains(got.Err, tt.err) {
				t.Errorf("wrote %q and %q, want %q and %q in it", got.Out, got.Err, tt.out, tt.err)
			}
			const slack = time.Second // of a machine with other things to do
			if got.Duration < limit || got.Duration > limit+tt.most+slack {
				t.Errorf("took %v, want the limit of %v and at most %v more", got.Duration, limit, tt.most+slack)
			}
			b.Works()
		})
	}
}

func TestStop(t *testing.T) {
	b := start(t)
	errClient := errors.New("the client cancelled")
	for _, tt := range []struct {
		name  string
		cause error
		timed bool
	}{
		{"cancelled", errClient, false},
		{"cancelled with a fault", fault.New(fault.Gone, "the client went away"), false},
		{"past its limit", fault.New(fault.Timeout, "the call ran past its limit"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			out := make(announce, 1)
			go func() {
				<-out
				cancel(tt.cause)
			}()
			exit, err := b.Process.Run(ctx, "print('begun', flush=True)\nwhile True: pass", out, out)
			if err != nil || exit.TimedOut != tt.timed || exit.Stopped == tt.timed || exit.Lost != "" {
				t.Errorf("Run = %+v, %v", exit, err)
			}
			b.Works()
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errClient)
	if exit, err := b.Process.Run(ctx, "print(1)", nil, nil); !errors.Is(err, errClient) {
		t.Errorf("Run with an ended context = %+v, %v, want %v", exit, err, errClient)
	}
	b.Works()
}

// An announce is an output that tells when something is written.
type announce chan struct{}

func (a announce) Write(p []byte) (int, error) {
	select {
	case a <- struct{}{}:
	default:
	}
	return len(p), nil
}

// TestWhatIsLeftRunning: nothing outlives its call, and a call does not wait
// for what it left.
func TestWhatIsLeftRunning(t *testing.T) {
	b := start(t)
	for _, tt := range []struct{ name, code, out string }{
		{"child that holds stdout", "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nprint('done')", "done\n"},
		{"in a session of its own", "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nprint('done')", "done\n"},
		{"forked twice", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        print('daemon', flush=True)\n        time.sleep(1000)\n    os._exit(0)\nos.wait()\ntime.sleep(0.3)", "daemon\n"},
		{"forked 500 times twice", "import os, time\nfor _ in range(500):\n    if os.fork() == 0:\n        if os.fork() == 0:\n            time.sleep(1000)\n        os._exit(0)\nprint('done')", "done\n"},
		{"respawning", "import os, time\nif os.fork() == 0:\n    while True:\n        if os.fork():\n            os._exit(0)\nprint('done')", "done\n"},
		{"stopped", "import os, signal, subprocess\np = subprocess.Popen(['sleep', '1000'])\np.send_signal(signal.SIGSTOP)\nprint('done')", "done\n"},
		{"ignoring signals", "import os, signal, time\nif os.fork() == 0:\n    for s in set(signal.Signals) - {9, 19}: signal.signal(s, signal.SIG_IGN)\n    time.sleep(1000)\nprint('done')\nos._exit(0)", "done\n"},
		{"shell in the background", "import os\nos.system('sleep 1000 & echo done')", "done\n0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := b.Run(tt.code)
			if !got.Plain() || got.Code != 0 || got.Out != tt.out {
				t.Errorf("%+v, want exit 0 and %q", got, tt.out)
			}
			if most := 10 * time.Second; got.Duration > most {
				t.Errorf("took %v, want at most %v", got.Duration, most)
			}
			left := b.Print("import os\nprint([(p, open('/proc/%s/stat' % p).read().split()[1:3]) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())])")
			if left != "[]\n" {
				t.Errorf("processes and zombies left: %s", left)
			}
		})
	}
}

func TestOutput(t *testing.T) {
	b := start(t)
	got := b.Run("import sys\nfor i in range(10_000): print('x' * 999)\nsys.exit(3)")
	if want := strings.Repeat(strings.Repeat("x", 999)+"\n", 10_000); got.Code != 3 || got.Out != want {
		t.Errorf("10 MB: exit %d and %d bytes, want 3 and %d", got.Code, len(got.Out), len(want))
	}
	got = b.Run("import os\nos.write(1, b'a' * 10_000_000)\nos.write(2, b'b' * 10_000_000)\nos._exit(3)")
	if got.Code != 3 || len(got.Out) != 10_000_000 || len(got.Err) != 10_000_000 {
		t.Errorf("10 MB to each: exit %d, %d and %d bytes", got.Code, len(got.Out), len(got.Err))
	}
	got = b.Run("import os\nos.write(1, b'begun' + bytes(200_000))\nos.kill(os.getpid(), 9)")
	if got.Signal != int(unix.SIGKILL) || len(got.Out) != 200_005 {
		t.Errorf("killed after 200,005 bytes: %+v with %d bytes", got.Exit, len(got.Out))
	}
	got = b.Run(`import sys; sys.stdout.buffer.write(bytes(range(256))); print("\udcff")`)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	if got.Out != string(every)+"\xff\n" {
		t.Errorf("bytes that are not UTF-8: %q", got.Out)
	}
}

// A refusing takes no more after its first bytes.
type refusing struct{ n int }

var errRefused = errors.New("no more")

func (r *refusing) Write(p []byte) (int, error) {
	r.n += len(p)
	return 0, errRefused
}

// TestOutputThatNobodyTakes: code does not wait for whoever reads its output.
func TestOutputThatNobodyTakes(t *testing.T) {
	b := start(t)
	var out, errs refusing
	exit, err := b.Process.Run(t.Context(), "for i in range(10_000): print('x' * 999)\nimport sys; sys.exit(3)", &out, &errs)
	if err != nil || exit.Code != 3 || out.n == 0 {
		t.Errorf("Run = %+v, %v after %d bytes, want exit 3", exit, err, out.n)
	}
	b.Works()
}

func TestManyCalls(t *testing.T) {
	b := start(t)
	for i := range 200 {
		if got, want := b.Print(fmt.Sprintf("print(%d+1)", i)), fmt.Sprintln(i+1); got != want {
			t.Fatalf("call %d printed %q, want %q", i, got, want)
		}
	}
}
