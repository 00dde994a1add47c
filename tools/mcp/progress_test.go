package mcp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	protocol "github.com/mark3labs/mcp-go/mcp"

	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/mcpclient"
)

// TestProgressFirst has 200 calls report progress just before they end, where
// the library's own transport writes it after the result.
func TestProgressFirst(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			s, _ := newServer(newFakes())
			w := dial(t, s, patience)
			for i := range 200 {
				w.seen = nil
				w.ask(callLine(strconv.Itoa(i), fmt.Sprintf(`%s,"progressToken":%d`, era.meta, i), "progress", "{}"))
				want := map[string]any{"progressToken": float64(i), "progress": 1.0, "message": "half"}
				if len(w.seen) != 2 || w.seen[0].Method != "notifications/progress" || !cmp.Equal(want, w.seen[0].Params) {
					t.Fatalf("call %d: messages %v, want its progress and then its result", i, w.seen)
				}
			}
		})
	}
}

// TestProgressAtOnce is TestProgressFirst with all calls at once.
func TestProgressAtOnce(t *testing.T) {
	const many = 200
	s, _ := newServer(newFakes())
	w := dial(t, s, patience)
	for i := range many {
		w.send(callLine(strconv.Itoa(i), fmt.Sprintf(`"progressToken":"p%d"`, i), "progress", "{}"))
	}
	replies, err := w.hangUp()
	if err != nil {
		t.Errorf("Stdio = %v", err)
	}
	for i := range many {
		told := slices.IndexFunc(replies, func(r reply) bool { return r.Params["progressToken"] == fmt.Sprintf("p%d", i) })
		answered := slices.IndexFunc(replies, func(r reply) bool { return string(r.ID) == strconv.Itoa(i) })
		// Progress may be dropped when the client is slow.
		if answered < 0 || told > answered {
			t.Errorf("call %d was answered by message %d, progress is message %d", i, answered, told)
		}
	}
}

func TestNoToken(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, patience)
	for i, meta := range []string{`"a":1`, `"progressToken":null`, `"progressToken":{}`, `"progressToken":[1]`} {
		w.ask(callLine(strconv.Itoa(i), meta, "progress", "{}"))
	}
	if replies, err := w.hangUp(); err != nil || len(replies) != 4 {
		t.Errorf("Stdio = %v, replies %v, want no progress", err, replies)
	}
}

// TestProgressAfterEnd keeps a call's Progress until the call is over.
func TestProgressAfterEnd(t *testing.T) {
	var kept func(string)
	list := newFakes().tools()[:1]
	list[0].Run = func(_ context.Context, call *tools.Call) (tools.Result, error) {
		kept = call.Progress
		return tools.Result{}, nil
	}
	w := dial(t, New(Options{Name: "x", Version: "1", Tools: list}), patience)
	w.ask(callLine("1", `"progressToken":1`, "wait", "{}"))
	kept("too late")
	if replies, err := w.hangUp(); err != nil || len(replies) != 1 {
		t.Errorf("Stdio = %v, replies %v, want the result alone", err, replies)
	}
}

func TestProgressThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []any
		full := false
		p := &progress{token: "t", send: func(params map[string]any) bool {
			if !full {
				sent = append(sent, params["progress"], params["message"])
			}
			return !full
		}}
		full = true
		p.report("dropped, the client does not read")
		full = false
		p.report("a")
		<-time.After(progressEvery - time.Nanosecond)
		p.report("too early")
		<-time.After(time.Nanosecond)
		p.report("b")
		p.end(t.Context())
		<-time.After(time.Minute)
		p.report("too late")
		if diff := cmp.Diff([]any{1, "a", 2, "b"}, sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tests := []struct {
			name        string
			sent        bool
			pause, want time.Duration
		}{
			{"nothing sent", false, 0, 0},
			{"just sent", true, 0, progressSettles},
			{"a while ago", true, 2 * time.Millisecond, progressSettles - 2*time.Millisecond},
			{"long ago", true, progressSettles, 0},
		}
		for _, tt := range tests {
			p := &progress{settle: progressSettles, send: func(map[string]any) bool { return true }}
			if tt.sent {
				p.report("x")
			}
			<-time.After(tt.pause)
			begin := time.Now()
			p.end(t.Context())
			if took := time.Since(begin); took != tt.want {
				t.Errorf("%s: end took %v, want %v", tt.name, took, tt.want)
			}
		}
	})
}

// TestSettles is for a transport of the library's. It tells when a release of it
// does without progressSettles: set that to 0 and run it.
func TestSettles(t *testing.T) {
	s, _ := newServer(newFakes())
	c, err := client.NewInProcessClient(s.library)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told := map[string]bool{}
	c.OnNotification(func(n protocol.JSONRPCNotification) {
		mu.Lock()
		defer mu.Unlock()
		token, _ := n.Params.AdditionalFields["progressToken"].(string)
		told[token] = true
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Initialize(t.Context(), protocol.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		token := strconv.Itoa(i)
		var req protocol.CallToolRequest
		req.Params.Name = "progress"
		req.Params.Meta = &protocol.Meta{ProgressToken: token}
		if _, err := c.CallTool(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if !told[token] {
			t.Errorf("call %d has its result before its progress", i)
		}
		mu.Unlock()
	}
}

func TestClientProgress(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			s, _ := newServer(newFakes())
			c := connect(t, s, version)
			for range 50 {
				var told []string
				_, err := c.Call(t.Context(), "progress", nil, mcpclient.OnProgress(func(m string) { told = append(told, m) }))
				if err != nil || !slices.Equal(told, []string{"half"}) {
					t.Fatalf("Call = %v with progress %q, want half", err, told)
				}
			}
		})
	}
}
