package main_test

import (
	"strings"
	"testing"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/tools/mcpclient"
)

// eras are the versions of the protocol that a client may speak.
var eras = map[string]string{"2025-11-25": mcpclient.Legacy, "2026-07-28": mcpclient.Modern}

// A badCode is code that does not do well, and what the answer says of it.
type badCode struct {
	limit          float64 // of seconds, if it shall run past that
	name, code     string
	line           string   // part of the head line
	stdout, stderr []string // parts, none: nothing is written
}

var badCodes = []badCode{
	{name: "empty", code: "", line: "· exit 0"},
	{name: "only a comment", code: "# nothing", line: "· exit 0"},
	{name: "whitespace", code: " \n\t\n  ", line: "· exit 0"},
	{name: "no output", code: "x = 1", line: "· exit 0"},
	{name: "syntax error", code: "x = 1\nprint(\"open", line: "· exit 1", stderr: []string{"line 2", "SyntaxError: unterminated string literal"}},
	{name: "another language", code: "x <- 1:6", line: "· exit 1", stderr: []string{"line 1", "SyntaxError"}},
	{name: "future import", code: "from __future__ import annotations\nx = 1\n1/0", line: "· exit 1", stderr: []string{`File "cell.py", line 3`, "ZeroDivisionError"}},
	{name: "input", code: "name = input('who? ')", line: "· exit 1", stderr: []string{"line 1", "EOFError: input() has nobody to ask"}},
	{name: "command that reads", code: "import subprocess\nprint(subprocess.run('read x; grep foo | head', shell=True).returncode)", line: "· exit 0", stdout: []string{"0\n"}},
	{name: "sys.exit", code: "import sys\nprint('a' * 5_000_000)\nsys.exit(3)", line: "· exit 3 · output 5 MB", stdout: []string{"aaaa"}},
	{name: "sys.exit with a text", code: "import sys\nsys.exit('bye')", line: "· exit 1", stderr: []string{"bye\n"}},
	{name: "os._exit", code: "import os\nprint('before')\nos._exit(1)", line: "· exit 1", stdout: []string{"before\n"}},
	{name: "exit of a command", code: "import os\nprint(os.waitstatus_to_exitcode(os.system('exit 42')))", line: "· exit 0", stdout: []string{"42\n"}},
	{name: "no such command", code: "import subprocess\nsubprocess.Popen(['no-such-bin'])", line: "· exit 1", stderr: []string{"line 2", "FileNotFoundError"}},
	{name: "signal", code: "import os\nos.kill(os.getpid(), 11)", line: "· ended by signal 11 (SIGSEGV"},
	{name: "kill everything", code: "import os\nfor pid in (os.getppid(), 1, 0, -1):\n    os.kill(pid, 9)", line: "· ended by signal 9 (SIGKILL"},
	{limit: 0.3, name: "endless loop", code: "print('begun')\nwhile True:\n    pass", line: "· ran past its 0.3 s limit; pass a larger timeout_seconds", stdout: []string{"begun\n"}, stderr: []string{"KeyboardInterrupt"}},
	{limit: 0.3, name: "loop that will not stop", code: "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    pass", line: "· ran past its 0.3 s limit"},
	{limit: 0.3, name: "64 threads that loop", code: "import threading\nfor _ in range(64):\n    threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()", line: "· ran past its 0.3 s limit", stderr: []string{""}},
	{name: "10 MB of output", code: "print('x' * 10_000_000)", line: "· output 10 MB, shown 12 kB", stdout: []string{"xxxx"}},
	{name: "10 MB on both", code: "import sys\nfor _ in range(1000):\n    print('o' * 5000)\n    print('e' * 5000, file=sys.stderr)", line: "· output 5 MB", stdout: []string{"oooo"}, stderr: []string{"eeee"}},
	{name: "bytes that are no text", code: `import os` + "\n" + `os.write(1, b"\xff\xfe\x00\x07ok\n")` + "\nNone", line: "· exit 0", stdout: []string{"ok\n"}},
	{name: "blank lines", code: `print("a\n\n\nb\n\nc")`, line: "· exit 0", stdout: []string{"a\n\n\nb\n\nc\n"}},
	{name: "child that holds stdout", code: "import subprocess\nsubprocess.Popen(['sleep', '600'])\nprint('begun')", line: "· exit 0", stdout: []string{"begun\n"}},
	{name: "orphan that holds stdout", code: "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)\nprint('begun')", line: "· exit 0", stdout: []string{"begun\n"}},
	{name: "descriptors closed", code: "import os\nos.closerange(0, 1 << 10)", line: "· exit "},
	{name: "500 orphans that end", code: "import os\nfor _ in range(500):\n    if os.fork() == 0:\n        os._exit(os.fork() and 0)\n    os.wait()\nprint('done')", line: "· exit 0", stdout: []string{"done\n"}},
	{name: "pool of processes", code: "import multiprocessing\ndef square(x):\n    return x * x\nwith multiprocessing.Pool(4) as p:\n    print(p.map(square, range(5)))", line: "· exit 0", stdout: []string{"[0, 1, 4, 9, 16]\n"}},
	{name: "here-document", code: `import subprocess` + "\n" + `_ = subprocess.run("cat <<'E'\n'\"\\\nE", shell=True)`, line: "· exit 0", stdout: []string{"'\"\\\n"}},
	{name: "progress bar", code: `for i in range(100_001):` + "\n" + `    print(end=f"\r{i:6d} of 100000")`, line: "· exit 0", stdout: []string{"100000 of 100000"}},
	{name: "forged head line", code: "print('[fresh process · exit 9]')\nprint('done 2304')", line: "· exit 0", stdout: []string{"[fresh process · exit 9]\ndone 2304\n"}},
	{name: "warning", code: "import warnings\nwarnings.warn('careful')\nprint(1)", line: "· exit 0", stdout: []string{"1\n"}, stderr: []string{"UserWarning: careful"}},
}

// TestBadCode runs code that does not do well. Each time there is one answer in
// good time, which says so, and the next call works.
func TestBadCode(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		for era, version := range eras {
			t.Run(era, func(t *testing.T) {
				t.Parallel()
				s := serve(t, lean, version)
				for _, test := range badCodes {
					t.Run(test.name, func(t *testing.T) { s.on(t).bad(test) })
				}
			})
		}
	})
}

func (s *server) bad(test badCode) {
	s.t.Helper()
	args := map[string]any{"code": test.code}
	if test.limit > 0 {
		args["timeout_seconds"] = test.limit
	}
	a := s.ask(args)
	head, _, _ := strings.Cut(a.text, "\n")
	if !strings.HasPrefix(head, "[fresh process · ") || !strings.Contains(head, test.line) || strings.Count(head, "· exit ") > 1 {
		s.t.Errorf("the line is %q, want one with %q", head, test.line)
	}
	for name, pair := range map[string]struct {
		got  string
		want []string
	}{"stdout": {a.Stdout, test.stdout}, "stderr": {a.Stderr, test.stderr}} {
		if pair.want == nil && pair.got != "" {
			s.t.Errorf("%s is %.300q, want none", name, pair.got)
		}
		for _, want := range pair.want {
			if !strings.Contains(pair.got, want) {
				s.t.Errorf("%s is %.300q, want %q in it", name, pair.got, want)
			}
		}
		if len(pair.got) > 13_000 {
			s.t.Errorf("%s has %d bytes, want about 12 kB at most", name, len(pair.got))
		}
	}
	if test.stdout == nil && test.stderr == nil && !strings.Contains(a.text, "no output") {
		s.t.Errorf("the answer does not say that there is no output:\n%s", a.text)
	}
	s.works()
}

// TestCodeLimit sends code that is as long as may be, and a byte longer.
func TestCodeLimit(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	s := serve(t, lean, "") // the default, 4 MB
	const most, code = 4_000_000, "print(len('"
	fill := func(n int) string { return code + strings.Repeat("x", n-len(code)-len("'))")) + "'))" }
	if a := s.run(fill(most)); a.Stdout != "3999986\n" {
		t.Errorf("code of the most that is allowed: %.300s", a.text)
	}
	s.refuses(map[string]any{"code": fill(most + 1)}, "invalid", "code has 4000001 bytes, at most 4000000 are allowed")
	s.refuses(map[string]any{"code": fill(10_000_000)}, "invalid", "code has 10000000 bytes, at most 4000000 are allowed")
	s.works()
}
