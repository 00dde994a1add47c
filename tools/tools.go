// Package tools says what a tool is: a value with a name, a schema, a text for
// the agent and a function, before it is bound to a protocol.
package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/conversation"
)

// A Tool is one tool. It is a plain value: what surrounds its calls is in
// tools/chain, how it reaches a client in tools/mcp.
type Tool struct {
	Name  string
	Title string
	// Doc is what the agent reads, less than 2 kB, the facts first.
	Doc string
	// Schema is the JSON Schema of the arguments, with additionalProperties
	// false. The order of its properties is the order that agents see.
	Schema json.RawMessage
	// The four hints, each a decision of the tool's author.
	ReadOnly, Destructive, Idempotent, OpenWorld bool
	// Queued says that calls wait their turn in the conversation: true of every
	// tool that runs code or changes the workspace.
	Queued bool
	// Check refuses a call whose arguments fit the schema and not the policy, before
	// a conversation is found for it. It may put what it makes of them into
	// call.Decoded, instead of Arguments. Nil refuses nothing.
	Check func(call *Call) error
	// Run answers a call. A *fault.Error is told to the agent; any other error
	// reaches it as "internal" with the call's id.
	Run Handler
}

// A Handler answers one call.
type Handler func(ctx context.Context, call *Call) (Result, error)

// A Link surrounds a handler; tools/chain holds the list of them.
type Link func(tool *Tool, next Handler) Handler

// A Call is one call of a tool, on its way through the chain. Links fill in
// what is empty at first.
type Call struct {
	Tool string
	// Arguments is the JSON object that the client sent, "{}" if none. The
	// chain replaces it by the checked one: known keys, right types, no nulls.
	Arguments json.RawMessage
	// Decoded is what the tool's Check has made of them, nil if nothing.
	Decoded any
	// Read is called when Check is done, and large arguments are not held any more
	// but by the tool; nil if nobody wants to know.
	Read func()
	// Meta is the _meta object of the request, without the progress token.
	Meta map[string]any
	// Header holds the HTTP headers; nil on stdio.
	Header http.Header
	// Client is the name and version that the client gives itself, for logs
	// alone: anybody may claim any name.
	Client string
	// Progress tells the client how far the call is; nil if the client did not
	// ask. It may be called from several goroutines until the handler returns.
	Progress func(message string)

	// Principal is who calls: "local" on stdio.
	Principal string
	// Policy is the configuration that the call follows from its start to its end.
	Policy *config.Config
	// Conversation is the one that the call belongs to, Number its number there,
	// from 1 on.
	Conversation *conversation.Conversation
	Number       int
	// Turn is the call's right to run, if its tool is queued; Run passes it on to
	// the conversation, or leaves it to the chain.
	Turn *conversation.Turn
	// Notices are sentences for the head line.
	Notices []string
}

// Name names the call in logs and to the agent.
func (c *Call) Name() string {
	if c.Conversation == nil {
		return c.Tool
	}
	return fmt.Sprintf("call %d of %s", c.Number, c.Conversation.ID)
}

// A Result is what a call answers.
type Result struct {
	Content []Content
	// Structured is the same in JSON, or nil. It is not sent beside images.
	Structured any
	// IsError says that the call was not carried out. Code that ran is not an
	// error, whatever its exit.
	IsError bool
}

// Content is one piece of a result: text, or an image when MediaType is set.
type Content struct {
	Text      string
	MediaType string
	Data      []byte
}

// Text returns a result of one text.
func Text(text string) Result {
	return Result{Content: []Content{{Text: text}}}
}
