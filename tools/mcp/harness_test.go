package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is in errors that no client may read.
const secret = "hunter2"

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// fakes are tools that do what their names say.
type fakes struct {
	// running gets each call of wait when it has begun; released ends them all.
	running  chan *waiting
	released chan struct{}
}

// waiting is a call of the tool wait.
type waiting struct {
	arguments string
	release   chan struct{}
	// ended gets the cause of the call's end, nil if it was released.
	ended chan error
}

func newFakes() *fakes {
	return &fakes{running: make(chan *waiting, 2000), released: make(chan struct{})}
}

func (f *fakes) tools() []tools.Tool {
	const schema = `{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"string"}},"additionalProperties":false}`
	named := func(name string, run tools.Handler) tools.Tool {
		return tools.Tool{
			Name: name, Title: "The " + name, Doc: "Does " + name + ".", Schema: json.RawMessage(schema),
			ReadOnly: name == "echo", Idempotent: name == "echo", OpenWorld: name == "secret", Destructive: name == "panic", Run: run,
		}
	}
	fails := func(err error) tools.Handler {
		return func(context.Context, *tools.Call) (tools.Result, error) { return tools.Result{}, err }
	}
	hidden := errors.New("open /root/" + secret)
	return []tools.Tool{
		named("wait", f.wait),
		named("echo", echo),
		named("fault", fails(fault.Wrap(fault.Quota, hidden, "no room; remove files"))),
		named("wrapped", fails(fmt.Errorf("look at "+secret+": %w", fault.New(fault.NotFound, "no such file; list them")))),
		named("secret", fails(fmt.Errorf("read: %w", hidden))),
		named("panic", func(context.Context, *tools.Call) (tools.Result, error) { panic(secret) }),
		named("image", func(context.Context, *tools.Call) (tools.Result, error) {
			return tools.Result{Content: []tools.Content{{Text: "a figure"}, {MediaType: "image/png", Data: []byte("\x89PNG")}}, Structured: 1}, nil
		}),
		named("nothing", func(context.Context, *tools.Call) (tools.Result, error) { return tools.Result{}, nil }),
		named("not_run", func(context.Context, *tools.Call) (tools.Result, error) {
			r := tools.Text("not run")
			r.IsError = true
			return r, nil
		}),
		named("no_json", func(context.Context, *tools.Call) (tools.Result, error) {
			return tools.Result{Structured: func() {}}, nil
		}),
		named("progress", func(_ context.Context, call *tools.Call) (tools.Result, error) {
			if call.Progress != nil {
				call.Progress("half")
			}
			return tools.Text("done"), nil
		}),
	}
}

// echo answers with what it was called with.
func echo(_ context.Context, call *tools.Call) (tools.Result, error) {
	seen := map[string]any{
		"tool": call.Tool, "arguments": string(call.Arguments), "meta": call.Meta, "client": call.Client,
		"progress": call.Progress != nil, "header": call.Header != nil,
	}
	return tools.Result{Content: []tools.Content{{Text: string(call.Arguments)}}, Structured: seen}, nil
}

func (f *fakes) wait(ctx context.Context, call *tools.Call) (tools.Result, error) {
	w := &waiting{arguments: string(call.Arguments), release: make(chan struct{}), ended: make(chan error, 1)}
	f.running <- w
	select {
	case <-w.release:
	case <-f.released:
	case <-ctx.Done():
		w.ended <- context.Cause(ctx)
		return tools.Result{}, fmt.Errorf("wait for "+secret+": %w", ctx.Err())
	}
	w.ended <- nil
	return tools.Text("waited"), nil
}

// next returns the next call of wait that has begun.
func (f *fakes) next(t *testing.T) *waiting {
	t.Helper()
	select {
	case w := <-f.running:
		return w
	case <-time.After(patience):
		t.Fatal("no call has begun")
		return nil
	}
}

// end returns why the call ended.
func (w *waiting) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the call did not end")
		return nil
	}
}

// newServer returns a server of the fakes, and its log.
func newServer(f *fakes) (*Server, *buffer) {
	log := &buffer{}
	return New(Options{
		Name: "bell", Title: "The Bell", Version: "1.2.3", Description: "For tests.", Instructions: "Ring it.",
		Icon: "data:image/svg+xml;base64,PHN2Zy8+", Tools: f.tools(),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}), log
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// wire is a client that writes lines by hand, over pipes of the kernel.
type wire struct {
	t    *testing.T
	in   *os.File // to the server
	stop context.CancelFunc
	done chan error
	// lines are the server's; closed at the end.
	lines chan string
	// seen are those that were taken from lines.
	seen []reply
}

// reply is one message of the server.
type reply struct {
	ID     json.RawMessage
	Method string
	Params map[string]any
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
	line string
}

// dial runs the server until the test is over, and fails it if the server wrote
// anything but messages, or a secret.
func dial(t *testing.T, s *Server, grace time.Duration) *wire {
	t.Helper()
	inRead, inWrite := pipe(t)
	outRead, outWrite := pipe(t)
	ctx, stop := context.WithCancel(t.Context())
	w := &wire{t: t, in: inWrite, stop: stop, done: make(chan error, 1), lines: make(chan string, 5000)}
	var running sync.WaitGroup
	running.Go(func() {
		w.done <- s.Stdio(ctx, inRead, outWrite, grace)
		outWrite.Close()
	})
	running.Go(func() {
		defer close(w.lines)
		r := bufio.NewReader(outRead)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				if line != "" || !errors.Is(err, io.EOF) {
					t.Errorf("read %q, %v from the server, want whole lines", line, err)
				}
				return
			}
			w.lines <- line
		}
	})
	t.Cleanup(func() {
		stop()
		inWrite.Close()
		running.Wait()
	})
	return w
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

func (w *wire) send(lines ...string) {
	w.t.Helper()
	if _, err := w.in.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		w.t.Fatalf("write to the server: %v", err)
	}
}

// next returns the server's next message; false at the end.
func (w *wire) next() (reply, bool) {
	w.t.Helper()
	select {
	case line, ok := <-w.lines:
		if !ok {
			return reply{}, false
		}
		r := reply{line: line}
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasPrefix(line, "{") {
			w.t.Fatalf("the server wrote %q, want a message", line)
		}
		if strings.Contains(line, secret) {
			w.t.Errorf("the server wrote %q", line)
		}
		w.seen = append(w.seen, r)
		return r, true
	case <-time.After(patience):
		w.t.Fatalf("no message from the server; seen so far: %v", w.seen)
		return reply{}, false
	}
}

// reply returns the response to id, which may have been seen before.
func (w *wire) reply(id string) reply {
	w.t.Helper()
	for i := 0; ; i++ {
		if i == len(w.seen) {
			if _, ok := w.next(); !ok {
				w.t.Fatalf("the server ended without a response to %s", id)
			}
		}
		if r := w.seen[i]; string(r.ID) == id && r.Method == "" {
			return r
		}
	}
}

// ask sends a request and returns its response.
func (w *wire) ask(line string) reply {
	w.t.Helper()
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		w.t.Fatal(err)
	}
	w.send(line)
	return w.reply(string(m.ID))
}

// hangUp ends what the server reads and returns what Stdio does, and all that
// the server wrote.
func (w *wire) hangUp() ([]reply, error) {
	w.t.Helper()
	w.in.Close()
	return w.rest()
}

// rest waits for Stdio to return.
func (w *wire) rest() ([]reply, error) {
	w.t.Helper()
	for {
		if _, ok := w.next(); !ok {
			return w.seen, <-w.done
		}
	}
}

// eras write requests as clients of the two eras do.
var eras = []struct {
	name string
	meta string
}{
	{"legacy", `"own":1`},
	{"modern", `"own":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"hand","version":"9"}`},
}

func requestLine(id, method, meta, params string) string {
	if params != "" {
		params = "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"_meta":{%s}%s}}`, id, method, meta, params)
}

func callLine(id, meta, tool, arguments string) string {
	return requestLine(id, "tools/call", meta, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
}

func cancelLine(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"test"}}`, id)
}

const initLine = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hand","version":"9"}}}`

// result is that of a tools/call.
type result struct {
	Content           []map[string]any
	StructuredContent json.RawMessage
	IsError           bool
	ResultType        string
}

func resultOf(t *testing.T, r reply) result {
	t.Helper()
	var got result
	if err := json.Unmarshal(r.Result, &got); err != nil {
		t.Fatalf("response %s has no result: %v", r.line, err)
	}
	return got
}
