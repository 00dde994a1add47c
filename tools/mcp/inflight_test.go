package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cloche.dev/cloche/tools"
)

// begun waits for n calls of wait and returns them by their argument z.
func (f *fakes) begun(t *testing.T, n int) map[int]*waiting {
	t.Helper()
	all := map[int]*waiting{}
	for range n {
		w := f.next(t)
		var args struct{ Z int }
		if err := json.Unmarshal([]byte(w.arguments), &args); err != nil {
			t.Fatal(err)
		}
		all[args.Z] = w
	}
	return all
}

func waitLine(id, meta string, z int) string {
	return callLine(id, meta, "wait", fmt.Sprintf(`{"z":%d}`, z))
}

// answers counts the responses to id.
func answers(replies []reply, id string) int {
	n := 0
	for _, r := range replies {
		if string(r.ID) == id && r.Method == "" {
			n++
		}
	}
	return n
}

func TestCancel(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			f := newFakes()
			s, _ := newServer(f)
			w := dial(t, s, patience)
			ids := []string{"1", `"1"`, "11", "1.5", "9007199254740993", "9007199254740992"}
			for i, id := range ids {
				w.send(waitLine(id, era.meta, i))
			}
			calls := f.begun(t, len(ids))
			w.send(cancelLine("7"), cancelLine("null"), cancelLine(`{}`), `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`)
			w.send(cancelLine("1"), cancelLine("9007199254740993"))
			for _, i := range []int{0, 4} {
				if err := calls[i].end(t); !errors.Is(err, ErrCancelled) {
					t.Errorf("cause of the end of %s = %v, want %v", ids[i], err, ErrCancelled)
				}
			}
			close(f.released)
			for _, i := range []int{1, 2, 3, 5} {
				if err := calls[i].end(t); err != nil {
					t.Errorf("%s was ended too: %v", ids[i], err)
				}
			}
			replies, err := w.hangUp()
			if err != nil {
				t.Errorf("Stdio = %v", err)
			}
			for i, id := range ids {
				want := 1
				if i == 0 || i == 4 {
					want = 0
				}
				if n := answers(replies, id); n != want {
					t.Errorf("%d responses to %s, want %d", n, id, want)
				}
			}
		})
	}
}

// TestCancelLate cancels calls that have been answered, and calls again under
// the same id: a client may not, but must not lose a call by it.
func TestCancelLate(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, patience)
	for range 100 {
		w.seen = nil
		w.ask(callLine("1", "", "echo", "{}"))
		w.send(cancelLine("1"))
	}
	if replies, err := w.hangUp(); err != nil || answers(replies, "1") != 1 {
		t.Errorf("Stdio = %v, replies %v", err, replies)
	}
}

// TestSameID has two calls of one id in flight: the end of the first must not
// make the second one impossible to cancel.
func TestSameID(t *testing.T) {
	f := newFakes()
	s, _ := newServer(f)
	w := dial(t, s, patience)
	w.send(waitLine("5", "", 0), waitLine("5", "", 1), waitLine("6", "", 2))
	calls := f.begun(t, 3)
	close(calls[0].release)
	w.reply("5")
	w.send(cancelLine("5"))
	if err := calls[1].end(t); !errors.Is(err, ErrCancelled) {
		t.Errorf("cause of the second's end = %v, want %v", err, ErrCancelled)
	}
	close(f.released)
	if replies, err := w.hangUp(); err != nil || answers(replies, "5") != 1 || answers(replies, "6") != 1 {
		t.Errorf("Stdio = %v, replies %v", err, replies)
	}
}

// TestMany has more calls in flight than the library's own transport has
// workers: the server still answers, and the last of them can be cancelled.
func TestMany(t *testing.T) {
	const many, last = 150, 119
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			f := newFakes()
			s, _ := newServer(f)
			w := dial(t, s, patience)
			for i := range many {
				w.send(waitLine(strconv.Itoa(i), era.meta, i))
			}
			calls := f.begun(t, many)
			w.ask(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
			w.ask(requestLine(`"list"`, "tools/list", era.meta, ""))
			if got := resultOf(t, w.ask(callLine(`"echo"`, era.meta, "echo", "{}"))); got.IsError {
				t.Errorf("echo beside %d calls = %+v", many, got)
			}
			w.send(cancelLine(strconv.Itoa(last)))
			if err := calls[last].end(t); !errors.Is(err, ErrCancelled) {
				t.Errorf("cause of the end = %v, want %v", err, ErrCancelled)
			}
			close(f.released)
			replies, err := w.hangUp()
			if err != nil {
				t.Errorf("Stdio = %v", err)
			}
			for i := range many {
				if n := answers(replies, strconv.Itoa(i)); n != 1 && i != last || n != 0 && i == last {
					t.Errorf("%d responses to %d", n, i)
				}
			}
		})
	}
}

func TestTooMany(t *testing.T) {
	long := strings.Repeat("x", 500)
	tests := []struct {
		name   string
		limits func(*limits)
	}{
		{"requests", func(l *limits) { l.requests = 3 }},
		{"bytes", func(l *limits) { l.bytes = 3 * len(waitLine("1", `"x":"`+long+`"`, 1)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakes()
			s, _ := newServer(f)
			tt.limits(&s.limits)
			w := dial(t, s, patience)
			for i := range 3 {
				w.send(waitLine(strconv.Itoa(i), `"x":"`+long+`"`, i))
			}
			calls := f.begun(t, 3)
			got := resultOf(t, w.ask(callLine("3", "", "echo", "{}")))
			if !got.IsError || !strings.Contains(string(got.StructuredContent), `"kind":"busy","text":"3 requests`) {
				t.Errorf("one call too many = %+v, want busy", got)
			}
			w.ask(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
			close(calls[0].release)
			w.reply("0")
			// The response is sent before the call is forgotten.
			for resultOf(t, w.ask(callLine("4", "", "echo", "{}"))).IsError {
				w.seen = nil
			}
			close(f.released)
			if _, err := w.hangUp(); err != nil {
				t.Errorf("Stdio = %v", err)
			}
		})
	}
}

// TestOrder sends calls one after the other: they are to reach their tools in
// that order, but for rare exceptions of the scheduler's.
func TestOrder(t *testing.T) {
	const many, rounds = 500, 5
	order := make(chan int, many)
	list := newFakes().tools()[:1]
	list[0].Run = func(_ context.Context, call *tools.Call) (tools.Result, error) {
		var args struct{ Z int }
		err := json.Unmarshal(call.Arguments, &args)
		order <- args.Z
		return tools.Result{}, err
	}
	w := dial(t, New(Options{Name: "x", Version: "1", Tools: list}), patience)
	lines := make([]string, many)
	for i := range lines {
		lines[i] = waitLine(strconv.Itoa(i), "", i)
	}
	wrong := 0
	for range rounds { // The first may be in order by chance.
		w.send(lines...)
		previous := -1
		for range many {
			i := <-order
			if i < previous {
				wrong++
			}
			previous = i
		}
	}
	if wrong > rounds*many/20 {
		t.Errorf("%d of %d calls came before their predecessor", wrong, rounds*many)
	}
}

// TestWholeLines has large answers come at once.
func TestWholeLines(t *testing.T) {
	const many = 150
	s, _ := newServer(newFakes())
	w := dial(t, s, patience)
	arguments := `{"a":"` + strings.Repeat("é\\n", 3_000) + `"}`
	for i := range many {
		w.send(callLine(strconv.Itoa(i), "", "echo", arguments))
	}
	replies, err := w.hangUp() // It reads each line as JSON.
	if err != nil || len(replies) != many {
		t.Errorf("Stdio = %v with %d replies, want %d", err, len(replies), many)
	}
}

// TestClientCancels cancels through a context of the library's client, as real
// hosts' clients do on a time-out.
func TestClientCancels(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFakes()
			s, _ := newServer(f)
			c := connect(t, s, version)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := c.Call(ctx, "wait", map[string]int{"z": 1})
				failed <- err
			}()
			call := f.next(t)
			cancel()
			if err := call.end(t); !errors.Is(err, ErrCancelled) {
				t.Errorf("cause of the end = %v, want %v", err, ErrCancelled)
			}
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("Call = %v, want %v", err, context.Canceled)
			}
			// The connection is as good as before.
			if r, err := c.Call(t.Context(), "echo", nil); err != nil || r.IsError {
				t.Errorf("Call = %+v, %v", r, err)
			}
		})
	}
}
