package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/tools/headline"
	"cloche.dev/cloche/tools/mcpclient"
)

// Bounds of waiting: for what takes milliseconds, on a machine that is busy.
const (
	soon  = 20 * time.Second
	slow  = 10 * time.Second // past this an answer is a failure
	often = 10 * time.Millisecond
)

// lean is a policy for tests that have no use for the libraries.
const lean = "[sandbox]\npreload = []\n"

// abrupt is a policy, to go after another, of a server that ends at once.
const abrupt = "[server]\nstop_grace = \"0s\"\n"

// A server is a running cloche stdio. Whatever a test does to it, at the test's
// end nothing of it is left.
type server struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan []byte // what it says, if it has no client
	client *mcpclient.Client
	log    *mcpclient.Log
	config string // path of its configuration
	data   string // its data directory
	done   chan struct{}
	forced bool // it need not end well
	warns  bool // its log may have warnings
}

// start starts a server with a configuration and no client.
func start(t *testing.T, config string, args ...string) *server {
	t.Helper()
	return launch(t, nil, config, args...)
}

// launch is start with a program, and its arguments, that becomes the server whose
// command line follows.
func launch(t *testing.T, wrapper []string, config string, args ...string) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{
		t: t, log: new(mcpclient.Log), lines: make(chan []byte, 10_000), done: make(chan struct{}),
		config: filepath.Join(dir, "config", "config.toml"), data: filepath.Join(dir, "data"),
	}
	if err := os.Mkdir(filepath.Dir(s.config), 0o700); err != nil {
		t.Fatal(err)
	}
	s.configure(config)
	args = append(append(wrapper, build.Programs(t), "stdio", "--config", s.config, "--data-dir", s.data), args...)
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
	s.cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	s.cmd.Stderr = s.log
	s.cmd.WaitDelay = time.Second
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.in = in
	var reader sync.WaitGroup
	reader.Go(func() { s.read(out) })
	go func() {
		defer close(s.done)
		reader.Wait()
		_ = s.cmd.Wait() // its state tells
	}()
	t.Cleanup(s.end)
	return s
}

// serve is start with a client, which speaks that version of the protocol; ""
// is the newest.
func serve(t *testing.T, config, version string, args ...string) *server {
	t.Helper()
	s := start(t, config, args...)
	s.connect(version)
	return s
}

// connect gives the server a client.
func (s *server) connect(version string) {
	s.t.Helper()
	r, w := io.Pipe()
	lines := s.lines
	go func() {
		for line := range lines {
			if _, err := w.Write(append(line, '\n')); err != nil {
				break
			}
		}
		_ = w.Close()
	}()
	s.t.Cleanup(func() { _ = r.Close() })
	client, err := mcpclient.Connect(s.t.Context(), r, s.in, version)
	if err != nil {
		s.t.Fatalf("connect: %v\n%s", err, s.log)
	}
	s.client = client
}

// read takes the server's messages. Each must be one of the protocol.
func (s *server) read(out io.Reader) {
	defer close(s.lines)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var m struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
			Result  json.RawMessage `json:"result"`
			Error   json.RawMessage `json:"error"`
		}
		err := json.Unmarshal(lines.Bytes(), &m)
		if err != nil || m.JSONRPC != "2.0" || m.Method == "" && m.Result == nil && m.Error == nil {
			s.t.Errorf("standard output carries what is no message: %.200q", lines.Text())
			continue
		}
		s.lines <- bytes.Clone(lines.Bytes())
	}
	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
		s.t.Errorf("read the server's standard output: %v", err)
	}
}

// configure writes the configuration, in one step.
func (s *server) configure(text string) {
	s.t.Helper()
	fresh := s.config + ".new"
	err := os.WriteFile(fresh, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(fresh, s.config)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// signal sends the server a signal.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("send %v: %v", sig, err)
	}
}

// ended waits for the end of the server and returns its exit code, -1 if a
// signal ended it.
func (s *server) ended() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(soon):
		s.t.Fatalf("the server did not end; its log:\n%s", s.log)
	}
	return s.cmd.ProcessState.ExitCode()
}

// end ends the server the way a client does, by the end of its input, and checks
// that it ends well and leaves nothing behind.
func (s *server) end() {
	left := s.holdings()
	if s.client != nil {
		if err := s.client.Close(); err != nil && !s.forced {
			s.t.Errorf("close the client: %v", err)
		}
	} else {
		_ = s.in.Close()
	}
	select {
	case <-s.done:
	case <-time.After(soon):
		s.t.Errorf("the server did not end and is killed; its log:\n%s", s.log)
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 && !s.forced {
		s.t.Errorf("the server ended with %v; its log:\n%s", s.cmd.ProcessState, s.log)
	}
	if log := s.log.String(); !s.warns && !s.forced && (strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR")) {
		s.t.Errorf("there are warnings in the log:\n%s", log)
	}
	left.gone(s.t)
}

// An answer is what a call of code_interpreter came to.
type answer struct {
	text    string
	isError bool
	headline.Structured
	Error struct {
		Kind, Text string
		RetryAfter float64 `json:"retry_after_seconds"`
	}
}

// call calls code_interpreter. It may be used from several goroutines.
func (s *server) call(args any, options ...mcpclient.CallOption) (a answer, err error) {
	a.text, a.isError, err = s.tool("code_interpreter", &a, args, options...)
	return a, err
}

// status calls sandbox_status, which must be carried out.
func (s *server) status() (st status) {
	s.t.Helper()
	text, isError, err := s.tool("sandbox_status", &st, nil)
	if err != nil || isError {
		s.t.Fatalf("sandbox_status: %v %s", err, text)
	}
	return st
}

// A status is what tests ask of sandbox_status.
type status struct {
	Conversation string
	Limits       struct {
		TimeoutSeconds float64 `json:"timeout_seconds"`
		PIDs           int
	}
	Conversations []struct {
		ID    string
		Calls int
	}
	Notices   []string
	Loaded    []string
	NotLoaded map[string]string `json:"not_loaded"`
}

// tool calls any tool and reads its structured result.
func (s *server) tool(name string, structured, args any, options ...mcpclient.CallOption) (text string, isError bool, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*soon)
	defer cancel()
	result, err := s.client.Call(ctx, name, args, options...)
	if err != nil {
		return "", false, err
	}
	return strings.Join(result.Text, "\n"), result.IsError, json.Unmarshal(result.Structured, structured)
}

// run runs code, which must be carried out.
func (s *server) run(code string) answer {
	s.t.Helper()
	return s.ask(map[string]any{"code": code})
}

// ask is run with any arguments.
func (s *server) ask(args any) answer {
	s.t.Helper()
	begin := time.Now()
	a, err := s.call(args)
	if took := time.Since(begin); took > slow {
		s.t.Errorf("call with %.200v took %v; the log:\n%s", args, took, s.log)
	}
	if err != nil {
		s.t.Fatalf("call with %.200v: %v\n%s", args, err, s.log)
	}
	if a.isError {
		s.t.Fatalf("call with %.200v was not carried out: %s", args, a.text)
	}
	return a
}

// on returns s for a test below that which started it.
func (s *server) on(t *testing.T) *server {
	c := *s
	c.t = t
	return &c
}

// An outcome is an answer, or why there is none.
type outcome struct {
	answer
	err error
}

// whole returns the answer of a call that was carried out.
func (o outcome) whole(t *testing.T) answer {
	t.Helper()
	if o.err != nil || o.isError {
		t.Fatalf("the call was not carried out: %v%s", o.err, o.text)
	}
	return o.answer
}

// begin begins a call. Whoever begins one takes its outcome.
func (s *server) begin(args any) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		a, err := s.call(args)
		c <- outcome{a, err}
	}()
	return c
}

// works checks that a call does, as if nothing had been: with empty folders, but
// for its home, and no process but its own and the parent.
func (s *server) works() {
	s.t.Helper()
	a := s.run("import os\nprint(os.listdir('/work'), os.listdir('/tmp'), sum(n.isdigit() for n in os.listdir('/proc')))")
	if a.Exit.Code == nil || *a.Exit.Code != 0 || a.Stdout != "[] ['home'] 2\n" || a.Stderr != "" {
		s.t.Errorf("the next call answered:\n%s", a.text)
	}
}

// await waits until what is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	tick := time.NewTicker(often)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not within %v", what, soon)
		}
	}
}
