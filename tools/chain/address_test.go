package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/tools"
)

// caller calls a tool and says which conversation the call belonged to.
type caller struct {
	tool tools.Tool
	got  *conversation.Conversation
	n    int
}

func newCaller(c *Chain) *caller {
	r := new(caller)
	r.tool = c.Wrap(fake(func(_ context.Context, call *tools.Call) (tools.Result, error) {
		r.got, r.n = call.Conversation, call.Number
		return tools.Result{}, nil
	}))
	return r
}

func (r *caller) call(t *testing.T, call tools.Call) (id string, err error) {
	t.Helper()
	r.got = nil
	call.Tool = r.tool.Name
	if call.Arguments == nil {
		call.Arguments = json.RawMessage("{}")
	}
	if _, err := r.tool.Run(t.Context(), &call); err != nil {
		return "", err
	}
	return r.got.ID, nil
}

// must is call without an error.
func (r *caller) must(t *testing.T, call tools.Call) string {
	t.Helper()
	id, err := r.call(t, call)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// hostKeys are the keys that hosts send, and ours before them: a contract.
var hostKeys = []string{
	"cloche/conversation", "openai/session", "vscode.conversationId", "threadId",
	"ai.opencode/sessionID", "antigravity.google/conversation_id",
}

func TestAddress(t *testing.T) {
	c, _ := newChain(t)
	r := newCaller(c)
	process := r.must(t, tools.Call{})
	if again := r.must(t, tools.Call{Meta: map[string]any{"other": "x"}}); again != process || r.n != 2 {
		t.Errorf("second call of the process = call %d of %s, want call 2 of %s", r.n, again, process)
	}

	// Each key has a conversation of its own, and goes before those after it.
	meta := map[string]any{}
	known := map[string]string{process: "the process"}
	for _, key := range slices.Backward(hostKeys) {
		alone := r.must(t, tools.Call{Meta: map[string]any{key: "same"}})
		if other := known[alone]; other != "" {
			t.Errorf("%s and %s have one conversation", key, other)
		}
		known[alone] = key
		meta[key] = "same"
		if got := r.must(t, tools.Call{Meta: meta}); got != alone {
			t.Errorf("with %v: the conversation of %s, want that of %s", meta, known[got], key)
		}
	}

	argument := func(id string) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"conversation":%q}`, id)) }
	if got := r.must(t, tools.Call{Arguments: argument(process), Meta: meta}); got != process {
		t.Errorf("with the argument and %v: %s, want that of the argument, %s", meta, got, process)
	}
	fresh := r.must(t, tools.Call{Arguments: argument("new"), Meta: meta})
	if known[fresh] != "" || r.n != 1 {
		t.Errorf("new = call %d of %s, want the first of a new one", r.n, fresh)
	}
	if got := r.must(t, tools.Call{Arguments: argument(fresh)}); got != fresh || r.n != 2 {
		t.Errorf("the id of the new one = call %d of %s, want call 2 of %s", r.n, got, fresh)
	}
	if got := r.must(t, tools.Call{Arguments: json.RawMessage(`{"conversation":null}`)}); got != process {
		t.Errorf("null = %s, want that of the process, %s", got, process)
	}
}

// TestHints tries what hosts may send as a name.
func TestHints(t *testing.T) {
	c, _ := newChain(t)
	r := newCaller(c)
	process := r.must(t, tools.Call{})
	seen := map[string]string{}
	for _, hint := range []string{
		"a", "A", "../../etc/passwd", "/", "报告 😀", "\x00", "a\x00b", "new", process, strings.Repeat("x", 300), strings.Repeat("x", maxHint),
	} {
		call := tools.Call{Meta: map[string]any{"threadId": hint}}
		id := r.must(t, call)
		if other, ok := seen[id]; ok || id == process {
			t.Errorf("hint %.20q has the conversation of %.20q", hint, other)
		}
		seen[id] = hint
		if again := r.must(t, call); again != id {
			t.Errorf("hint %.20q a second time = %s, want %s", hint, again, id)
		}
	}
	for _, value := range []any{"", nil, 5.0, []any{"a"}, map[string]any{}} {
		if id := r.must(t, tools.Call{Meta: map[string]any{"threadId": value}}); id != process {
			t.Errorf("threadId %v = %s, want that of the process", value, id)
		}
	}
	_, err := r.call(t, tools.Call{Meta: map[string]any{"threadId": strings.Repeat(secret, maxHint)}})
	wantFault(t, err, fault.Invalid, `_meta "threadId" has 7168 bytes, at most 1024 are allowed`)
	_, err = r.call(t, tools.Call{Meta: map[string]any{"threadId": strings.Repeat("x", maxHint+1)}})
	wantFault(t, err, fault.Invalid, "1025 bytes")
}

func TestOtherPrincipal(t *testing.T) {
	c, _ := newChain(t)
	r := newCaller(c)
	mine := r.must(t, tools.Call{Meta: map[string]any{"threadId": "same"}})
	theirs := r.must(t, tools.Call{Principal: "other", Meta: map[string]any{"threadId": "same"}})
	if mine == theirs {
		t.Error("one hint of two principals is one conversation")
	}
	// What is another's and what never was get the same answer.
	var texts []string
	for _, id := range []string{theirs, "c-" + strings.Repeat("a", 26), "no such", "../" + mine, "NEW", " new"} {
		_, err := r.call(t, tools.Call{Arguments: json.RawMessage(fmt.Sprintf(`{"conversation":%q}`, id))})
		wantFault(t, err, fault.NotFound, "no such conversation of yours")
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("answer %q differs from %q", text, texts[0])
		}
	}
	if got := r.must(t, tools.Call{Principal: "other", Arguments: json.RawMessage(fmt.Sprintf(`{"conversation":%q}`, theirs))}); got != theirs {
		t.Errorf("the other's own = %s, want %s", got, theirs)
	}
}
