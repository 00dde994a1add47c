package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/tools"
)

// endings are the ways to end a server: the client hangs up, or the process is
// told to stop.
var endings = []struct {
	name string
	end  func(w *wire)
}{
	{"end of input", func(w *wire) { w.in.Close() }},
	{"end of context", func(w *wire) { w.stop() }},
}

func TestEndIdle(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			s, _ := newServer(newFakes())
			w := dial(t, s, patience)
			w.ask(initLine)
			e.end(w)
			if _, err := w.rest(); err != nil {
				t.Errorf("Stdio = %v", err)
			}
		})
	}
}

func TestEndInGrace(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			f := newFakes()
			s, _ := newServer(f)
			w := dial(t, s, patience)
			w.send(waitLine("1", "", 1), waitLine("2", "", 2))
			calls := f.begun(t, 2)
			e.end(w)
			close(calls[1].release)
			if got := resultOf(t, w.reply("1")); got.IsError || got.Content[0]["text"] != "waited" {
				t.Errorf("the call that ended in its grace = %+v", got)
			}
			select {
			case err := <-w.done:
				t.Errorf("Stdio = %v while a call is in flight", err)
			default:
			}
			close(calls[2].release)
			if replies, err := w.rest(); err != nil || answers(replies, "2") != 1 {
				t.Errorf("Stdio = %v, replies %v", err, replies)
			}
		})
	}
}

func TestEndPastGrace(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			f := newFakes()
			s, _ := newServer(f)
			w := dial(t, s, time.Millisecond)
			w.send(waitLine("1", "", 1))
			call := f.next(t)
			e.end(w)
			if err := call.end(t); !errors.Is(err, ErrStopping) {
				t.Errorf("cause of the call's end = %v, want %v", err, ErrStopping)
			}
			replies, err := w.rest()
			if err != nil || answers(replies, "1") != 1 {
				t.Fatalf("Stdio = %v, replies %v", err, replies)
			}
			got := resultOf(t, w.reply("1"))
			if !got.IsError || !strings.Contains(string(got.StructuredContent), `"kind":"unavailable","text":"the server is stopping; `) {
				t.Errorf("the call past its grace = %s", got.StructuredContent)
			}
		})
	}
}

// TestStopping talks to a server that has been told to stop.
func TestStopping(t *testing.T) {
	f := newFakes()
	s, _ := newServer(f)
	w := dial(t, s, patience)
	w.send(waitLine("1", "", 1), waitLine("2", "", 2))
	calls := f.begun(t, 2)
	w.stop()
	// When it has seen that is not known: until then calls are carried out.
	for {
		w.seen = nil
		got := resultOf(t, w.ask(callLine("3", "", "echo", "{}")))
		if got.IsError {
			if !strings.Contains(string(got.StructuredContent), `"kind":"unavailable"`) {
				t.Errorf("call of a server that stops = %s", got.StructuredContent)
			}
			break
		}
	}
	w.ask(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	w.send(cancelLine("1"))
	if err := calls[1].end(t); !errors.Is(err, ErrCancelled) {
		t.Errorf("cause of the end = %v, want %v", err, ErrCancelled)
	}
	close(calls[2].release)
	if replies, err := w.rest(); err != nil || answers(replies, "1") != 0 || answers(replies, "2") != 1 {
		t.Errorf("Stdio = %v, replies %v", err, replies)
	}
}

// TestStubborn has a call that does not heed its context.
func TestStubborn(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	list := newFakes().tools()[:1]
	list[0].Run = func(context.Context, *tools.Call) (tools.Result, error) {
		close(begun)
		<-release
		return tools.Result{}, nil
	}
	s := New(Options{Name: "x", Version: "1", Tools: list})
	s.limits.linger = time.Millisecond
	w := dial(t, s, 0)
	w.send(waitLine("1", "", 1))
	<-begun
	_, err := w.hangUp()
	if err == nil || err.Error() != "1 calls did not end when the server stopped" {
		t.Errorf("Stdio = %v, want it to tell of the call", err)
	}
	close(release)
}

// TestDeafClient does not read what it asked for.
func TestDeafClient(t *testing.T) {
	s, _ := newServer(newFakes())
	s.limits.linger = 10 * time.Millisecond
	inRead, inWrite := pipe(t)
	outRead, outWrite := pipe(t)
	done := make(chan error)
	go func() { done <- s.Stdio(t.Context(), inRead, outWrite, 0) }()
	line := callLine("1", "", "echo", `{"a":"`+strings.Repeat("x", 5_000)+`"}`) + "\n"
	for range 100 {
		if _, err := inWrite.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	inWrite.Close()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "it does not read") {
		t.Errorf("Stdio = %v, want it to tell that the client does not read", err)
	}
	outRead.Close()
	outWrite.Close()
}

// TestLateReader writes more calls than the way back holds answers to, and only
// then reads: the server must not wait for it.
func TestLateReader(t *testing.T) {
	for _, tool := range []string{"echo", strings.Repeat("no", 60)} {
		const many = 900
		s, _ := newServer(newFakes())
		inRead, inWrite := pipe(t)
		outRead, outWrite := pipe(t)
		done := make(chan error, 1)
		go func() { done <- s.Stdio(t.Context(), inRead, outWrite, patience) }()
		if err := inWrite.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		line := callLine("1", "", tool, "{}") + "\n"
		for i := range many {
			if _, err := inWrite.WriteString(line); err != nil {
				t.Fatalf("write call %d: %v", i, err)
			}
		}
		inWrite.Close()
		r := bufio.NewReader(outRead)
		for i := range many {
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatalf("read answer %d: %v", i, err)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("Stdio = %v", err)
		}
	}
}

// TestGoneClient closes its end of the server's output while a call is in flight.
func TestGoneClient(t *testing.T) {
	f := newFakes()
	s, _ := newServer(f)
	inRead, inWrite := pipe(t)
	outRead, outWrite := pipe(t)
	done := make(chan error, 1)
	go func() { done <- s.Stdio(t.Context(), inRead, outWrite, patience) }()
	if _, err := inWrite.WriteString(waitLine("1", "", 1) + "\n"); err != nil {
		t.Fatal(err)
	}
	call := f.next(t)
	outRead.Close()
	if _, err := inWrite.WriteString(callLine("2", "", "echo", "{}") + "\n"); err != nil {
		t.Fatal(err)
	}
	close(call.release)
	if err := call.end(t); err != nil {
		t.Errorf("the call was ended by %v within its grace", err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) && (err == nil || !strings.Contains(err.Error(), "broken pipe")) {
		t.Errorf("Stdio = %v, want a broken pipe", err)
	}
	inWrite.Close()
}

// TestReadError has an input that fails.
func TestReadError(t *testing.T) {
	f := newFakes()
	s, _ := newServer(f)
	broken := errors.New("broken input")
	in := io.MultiReader(strings.NewReader(callLine("1", "", "echo", "{}")+"\n"), &failing{broken})
	var out strings.Builder
	if err := s.Stdio(t.Context(), in, &out, 0); !errors.Is(err, broken) {
		t.Errorf("Stdio = %v, want %v", err, broken)
	}
	if !strings.Contains(out.String(), `"id":1`) {
		t.Errorf("output %q, want the answer", out.String())
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// TestPanicOfLibrary has the library itself panic, in a request's goroutine.
func TestPanicOfLibrary(t *testing.T) {
	s, log := newServer(newFakes())
	s.library = nil // Any request of it panics.
	c := newConn(s)
	go c.out.run(io.Discard)
	r := &request{conn: c, id: []byte("1"), begun: make(chan struct{})}
	if got := string(c.response(t.Context(), r, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))); !strings.Contains(got, `"id":1,"error":{"code":-32603,"message":"internal error"}`) {
		t.Errorf("response = %s", got)
	}
	if !strings.Contains(log.String(), "nil pointer") {
		t.Errorf("log %s, want the panic", log)
	}
	if err := c.out.close(patience); err != nil {
		t.Error(err)
	}
}
