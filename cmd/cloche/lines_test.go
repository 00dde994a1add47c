package main_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/tools/mcpclient"
)

// say sends the server, which has no client, a line.
func (s *server) say(line string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		s.t.Fatalf("write to the server: %v\n%s", err, s.log)
	}
}

// hear returns the server's next line, "" at their end.
func (s *server) hear() string {
	s.t.Helper()
	select {
	case line := <-s.lines:
		return string(line)
	case <-time.After(soon):
		s.t.Fatalf("the server says nothing; its log:\n%s", s.log)
		return ""
	}
}

// initialize is how a client begins.
func (s *server) initialize() {
	s.t.Helper()
	s.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"lines","version":"1"}}}`)
	if got := s.hear(); !strings.Contains(got, `"serverInfo"`) {
		s.t.Fatalf("initialize answered %s", got)
	}
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// calls is a request of code_interpreter.
func calls(id int, code string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"code_interpreter","arguments":{"code":%q}}}`, id, code)
}

// TestEnds ends a server while a call is in flight: by the end of its input, as
// clients do, or by SIGTERM. The call may end within the grace, and is ended
// after it; its answer comes, and the server ends well.
func TestEnds(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		eof := func(s *server) { _ = s.in.Close() }
		term := func(s *server) { s.signal(syscall.SIGTERM) }
		for _, test := range []struct {
			name, grace string
			end         func(*server)
			code, want  string
		}{
			{"EOF within the grace", "30s", eof, "import time\ntime.sleep(0.5)\nprint('whole')", `\nwhole\n`},
			{"EOF past the grace", "200ms", eof, "import time\ntime.sleep(600)", "stopped before its end"},
			{"SIGTERM within the grace", "30s", term, "import time\ntime.sleep(0.5)\nprint('whole')", `\nwhole\n`},
			{"SIGTERM past the grace", "200ms", term, "import time\ntime.sleep(600)", "stopped before its end"},
			{"SIGTERM without grace", "0s", term, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    pass", "stopped before its end"},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				s := start(t, lean+"[server]\nstop_grace = \""+test.grace+"\"\n")
				s.initialize()
				s.say(calls(1, named("inflight")+test.code))
				busy(t, s.cmd.Process.Pid, "inflight")
				left := s.holdings()
				begin := time.Now()
				test.end(s)
				if got := s.hear(); !strings.Contains(got, `"id":1,`) || !strings.Contains(got, test.want) {
					t.Errorf("the call in flight answered %q, want %s in it", got, test.want)
				}
				if code := s.ended(); code != 0 {
					t.Errorf("exit %d, want 0", code)
				}
				if took := time.Since(begin); took > slow {
					t.Errorf("the end took %v", took)
				}
				if more := s.hear(); more != "" {
					t.Errorf("there is more on standard output: %s", more)
				}
				left.gone(t)
			})
		}
	})
}

// TestStopping calls a server that is stopping: a call that comes late is told
// so, the one that runs gets its answer.
func TestStopping(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	s := start(t, lean)
	s.initialize()
	s.say(calls(1, named("inflight")+"import time\ntime.sleep(2)\nprint('whole')"))
	busy(t, s.cmd.Process.Pid, "inflight")
	s.signal(syscall.SIGTERM)
	// Nothing says when the signal has come. What is earlier waits for its turn.
	answers := ""
	await(t, "an answer to a late call", func() bool {
		s.say(calls(2, "print('late')"))
		select {
		case line := <-s.lines:
			answers += string(line)
		default:
		}
		return answers != ""
	})
	if !strings.Contains(answers, `"id":2,`) || !strings.Contains(answers, "the server is stopping; call again when it is back") || !strings.Contains(answers, `"isError":true`) {
		t.Errorf("the late call answered %s", answers)
	}
	for answer := s.hear(); answer != ""; answer = s.hear() {
		answers += answer
	}
	if !strings.Contains(answers, `"id":1,`) || !strings.Contains(answers, `\nwhole\n`) {
		t.Errorf("the call in flight is not in the answers:\n%s", answers)
	}
	if code := s.ended(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

// TestStandardOutput has a server log all that it can and go through what there
// is: read checks that its standard output carries nothing but messages.
func TestStandardOutput(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	for era, version := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := serve(t, lean+"[log]\nlevel = \"debug\"\n", version)
			s.warns = true
			told := make(chan string, 100)
			report := func(m string) { told <- m }
			a, err := s.call(map[string]any{"code": "import os, sys, time\ntime.sleep(1.3)\nos.system('echo out; echo err >&2')\nprint('\\x1b[31mred\\r\\n')"}, mcpclient.OnProgress(report))
			if err != nil || a.isError {
				t.Fatalf("call: %v %s", err, a.text)
			}
			if len(told) == 0 || !strings.HasPrefix(<-told, "running for 1 s of at most 60 s") {
				t.Errorf("there was no progress")
			}
			s.refuses(map[string]any{"cod": 1}, "invalid", "cod")
			s.run("import os\nos.abort()")
			if _, _, err := s.tool("no_such_tool", new(any), nil); err == nil {
				t.Error("a tool that is not there answered")
			}
			s.signal(syscall.SIGHUP)
			s.configure("[log]\nlevel = \"loud\"\n")
			await(t, "a line about the bad configuration", func() bool { return strings.Contains(s.log.String(), "configuration not taken") })
			s.status()
			s.works()
		})
	}
}
