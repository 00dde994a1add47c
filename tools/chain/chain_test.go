package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is what must reach neither the agent nor, out of arguments, the log.
const secret = "hunter2"

type fakeArgs struct {
	Text         string `json:"text,omitempty"`
	Seconds      int    `json:"seconds,omitempty"`
	Conversation string `json:"conversation,omitempty"`
}

// fake returns a tool that run answers for.
func fake(run tools.Handler) tools.Tool {
	return tools.Tool{Name: "fake", Schema: schema.For[fakeArgs](schema.Range("seconds", 1, 10)), Run: run}
}

// quiet is a tool's answer to a call that has nothing to say.
func quiet(context.Context, *tools.Call) (tools.Result, error) { return tools.Text("done"), nil }

// A buffer is a log that goroutines may write.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// lines returns what was logged since the last call of it.
func (b *buffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()
	return strings.Split(strings.TrimSuffix(b.buf.String(), "\n"), "\n")
}

// newChain returns a chain of the local user, with the default policy.
func newChain(t *testing.T) (*Chain, *buffer) {
	t.Helper()
	log := new(buffer)
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	set := conversation.NewSet(t.Context(), conversation.Options{Log: logger})
	t.Cleanup(func() { set.Close(context.Background()) })
	policy := config.Default()
	return &Chain{
		Policy: func() *config.Config { return &policy }, Conversations: set,
		Principal: "local", Hint: "process", Log: logger,
	}, log
}

// call calls tool with arguments.
func call(t *testing.T, tool tools.Tool, arguments string) (tools.Result, error) {
	t.Helper()
	return tool.Run(t.Context(), &tools.Call{Tool: tool.Name, Arguments: json.RawMessage(arguments)})
}

// wantFault checks that err is a fault of kind whose text contains text and
// nothing that is secret.
func wantFault(t *testing.T, err error, kind fault.Kind, text string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind() != kind || !strings.Contains(f.Text(), text) || strings.Contains(f.Text(), secret) {
		t.Errorf("error = %#v, want a fault of kind %q that says %q and not %q", err, kind, text, secret)
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  tools.Handler
		kind fault.Kind
		text string
		log  string // part of the line
	}{
		{
			"panic", func(context.Context, *tools.Call) (tools.Result, error) { panic("lost " + secret) },
			fault.Internal, "internal error in call 1 of c-", `"panic":"lost hunter2"`,
		},
		{
			"panic of the runtime", func(_ context.Context, call *tools.Call) (tools.Result, error) {
				return tools.Text(call.Turn.Waited.String() + string(call.Arguments[len(call.Arguments):][0])), nil
			}, fault.Internal, "internal error in call 1 of c-", "chain_test.go",
		},
		{
			"plain error", func(context.Context, *tools.Call) (tools.Result, error) {
				return tools.Result{}, errors.New("open /home/" + secret)
			}, fault.Internal, "the server's log has the cause; try once more, then tell the administrator", `"level":"ERROR"`,
		},
		{
			"fault with a cause", func(context.Context, *tools.Call) (tools.Result, error) {
				return tools.Result{}, fault.Wrap(fault.NotFound, errors.New("token "+secret), "no such ref; list the refs")
			}, fault.NotFound, "no such ref; list the refs", "token hunter2",
		},
		{
			"fault in a plain error", func(context.Context, *tools.Call) (tools.Result, error) {
				return tools.Result{}, fmt.Errorf("read %s: %w", secret, fault.New(fault.Quota, "too much; remove files"))
			}, fault.Quota, "too much; remove files", `"outcome":"quota"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, log := newChain(t)
			broken := true
			tool := fake(func(ctx context.Context, call *tools.Call) (tools.Result, error) {
				if broken {
					return tt.run(ctx, call)
				}
				return quiet(ctx, call)
			})
			tool.Queued = true
			tool = c.Wrap(tool)
			_, err := call(t, tool, "{}")
			wantFault(t, err, tt.kind, tt.text)
			if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], tt.log) {
				t.Errorf("log = %q, want one line with %s", lines, tt.log)
			}
			broken = false
			if r, err := call(t, tool, "{}"); err != nil || r.Content[0].Text != "done" {
				t.Errorf("the next call = %v, %v, want it to work", r, err)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	c, log := newChain(t)
	var got string
	tool := c.Wrap(fake(func(_ context.Context, call *tools.Call) (tools.Result, error) {
		got = string(call.Arguments)
		return tools.Result{}, nil
	}))
	for _, tt := range []struct{ name, arguments, want string }{
		{"as they came", `{"text": "a"}`, `{"text": "a"}`},
		{"none", ``, `{}`},
		{"null is absent", `{"text":null,"seconds":"5"}`, `{"seconds":5}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := call(t, tool, tt.arguments); err != nil || got != tt.want {
				t.Errorf("arguments %s reached the tool as %s (error %v), want %s", tt.arguments, got, err, tt.want)
			}
		})
	}
	log.lines()
	known := len(c.Conversations.Recent("local", 100))
	for _, tt := range []struct{ name, arguments, text string }{
		{"unknown", `{"conversation":"new","txt":"hunter2"}`, "unknown argument \"txt\", did you mean text?"},
		{"other case", `{"Conversation":"new"}`, "unknown argument \"Conversation\", did you mean conversation?"},
		{"type", `{"conversation":"new","seconds":true,"text":"hunter2"}`, `must be an integer from 1 to 10, not true`},
		{"range", `{"conversation":"new","seconds":11,"text":"hunter2"}`, "must be an integer from 1 to 10, not 11"},
		{"conversation of the wrong type", `{"conversation":5}`, `"conversation" must be a string, not 5`},
		{"no JSON", `{"conversation":"new"`, "not valid JSON"},
		{"no object", `["new"]`, "must be one JSON object"},
		{"twice", `{"conversation":"new","conversation":"new"}`, "twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got = "the tool was not called"
			_, err := call(t, tool, tt.arguments)
			wantFault(t, err, fault.Invalid, tt.text)
			if got != "the tool was not called" {
				t.Errorf("the tool was called with %s", got)
			}
		})
	}
	if n := len(c.Conversations.Recent("local", 100)); n != known {
		t.Errorf("refused calls left %d conversations behind", n-known)
	}
	// A value of the wrong type is told to the agent and not to the log.
	_, err := call(t, tool, `{"seconds":"hunter2"}`)
	if !strings.Contains(fmt.Sprint(err), secret) {
		t.Errorf("error = %v, want the value in it", err)
	}
	for _, line := range log.lines() {
		if strings.Contains(line, secret) || !strings.Contains(line, `"outcome":"invalid"`) {
			t.Errorf("log line %s, want the outcome and no arguments", line)
		}
	}
}

// TestCheck refuses by the policy what fits the schema: the tool is not called,
// and no conversation begins for that.
func TestCheck(t *testing.T) {
	c, log := newChain(t)
	tool := fake(func(context.Context, *tools.Call) (tools.Result, error) {
		t.Error("the tool was called")
		return tools.Result{}, nil
	})
	tool.Check = func(call *tools.Call) error {
		if string(call.Arguments) != `{"seconds":5}` || call.Policy == nil || call.Conversation != nil {
			t.Errorf("Check was asked of %+v", call)
		}
		return fault.New(fault.Invalid, "five is too many; ask for four")
	}
	tool.Queued = true
	_, err := call(t, c.Wrap(tool), `{"seconds":"5"}`)
	wantFault(t, err, fault.Invalid, "five is too many; ask for four")
	if known := c.Conversations.Recent("local", 100); len(known) != 0 {
		t.Errorf("a refused call left %v behind", known)
	}
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], `"outcome":"invalid"`) {
		t.Errorf("log = %q, want one line with the outcome", lines)
	}
}

func TestLogLine(t *testing.T) {
	c, log := newChain(t)
	tool := c.Wrap(fake(func(context.Context, *tools.Call) (tools.Result, error) {
		return tools.Text("result " + secret), nil
	}))
	if _, err := call(t, tool, `{"text":"hunter2"}`); err != nil {
		t.Fatal(err)
	}
	lines := log.lines()
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 1 {
		t.Fatalf("log = %q (%v), want one line", lines, err)
	}
	id := c.Conversations.Recent("local", 1)[0].ID
	for key, want := range map[string]any{
		"level": "INFO", "msg": "call", "tool": "fake", "conversation": id, "call": 1.0, "outcome": "ok",
	} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v", key, line[key], want)
		}
	}
	if _, ok := line["took"].(float64); !ok {
		t.Errorf("took = %v, want a number", line["took"])
	}
	if strings.Contains(lines[0], secret) {
		t.Errorf("the line %s holds arguments or results", lines[0])
	}
}

func TestPolicyOfTheMoment(t *testing.T) {
	c, _ := newChain(t)
	policy := config.Default()
	c.Policy = func() *config.Config { return &policy }
	var seen []string
	tool := c.Wrap(fake(func(_ context.Context, call *tools.Call) (tools.Result, error) {
		seen = append(seen, call.Policy.Log.Level+" "+call.Principal)
		policy = config.Default() // another one, while the call runs
		seen = append(seen, call.Policy.Log.Level)
		return tools.Result{}, nil
	}))
	for _, level := range []string{"debug", "warn"} {
		changed := config.Default()
		changed.Log.Level = level
		c.Policy = func() *config.Config { return &changed }
		if _, err := call(t, tool, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(seen, ", "); got != "debug local, debug, warn local, warn" {
		t.Errorf("policies = %s, want that of each call's start", got)
	}
}

func TestSchemaThatDoesNotCompile(t *testing.T) {
	c, _ := newChain(t)
	defer func() {
		if recover() == nil {
			t.Error("Wrap of a tool whose schema does not compile did not panic")
		}
	}()
	c.Wrap(tools.Tool{Name: "fake", Schema: json.RawMessage(`{"type":"array"}`), Run: quiet})
}
