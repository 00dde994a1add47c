package chain

import (
	"context"
	"encoding/json"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/tools"
)

// maxHint bounds what a host may send as a hint, in bytes.
const maxHint = 1 << 10

// metaKeys are the keys of _meta that tell conversations apart, the first that
// is there counts: ours, then those of hosts.
var metaKeys = []string{
	"cloche/conversation",
	"openai/session",                     // ChatGPT
	"vscode.conversationId",              // VS Code
	"threadId",                           // Codex
	"ai.opencode/sessionID",              // OpenCode
	"antigravity.google/conversation_id", // Antigravity
}

// addressed finds the conversation that a call belongs to.
func (c *Chain) addressed(_ *tools.Tool, next tools.Handler) tools.Handler {
	return func(ctx context.Context, call *tools.Call) (tools.Result, error) {
		conv, err := c.conversation(call)
		if err != nil {
			return tools.Result{}, err
		}
		call.Conversation, call.Number = conv, conv.Begin()
		return next(ctx, call)
	}
}

func (c *Chain) conversation(call *tools.Call) (*conversation.Conversation, error) {
	switch id := argument(call.Arguments); id {
	case "":
	case "new":
		return c.Conversations.New(call.Principal), nil
	default:
		return c.Conversations.ByID(call.Principal, id)
	}
	hint, err := c.hint(call)
	if err != nil {
		return nil, err
	}
	return c.Conversations.ByHint(call.Principal, hint), nil
}

// argument returns the argument "conversation"; "" if there is none.
// Preconditions: the arguments have been checked.
func argument(arguments json.RawMessage) string {
	var a struct {
		Conversation string `json:"conversation"`
	}
	if json.Unmarshal(arguments, &a) != nil {
		return ""
	}
	return a.Conversation
}

// hint returns what tells this call's conversation from others of its principal.
// It is never an authorization.
func (c *Chain) hint(call *tools.Call) (string, error) {
	for _, key := range metaKeys {
		value, ok := call.Meta[key].(string)
		if !ok || value == "" {
			continue
		}
		if len(value) > maxHint {
			return "", fault.New(fault.Invalid, "_meta %q has %d bytes, at most %d are allowed; send a shorter name", key, len(value), maxHint)
		}
		return key + "\x00" + value, nil
	}
	return c.Hint, nil
}
