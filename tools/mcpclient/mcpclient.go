// Package mcpclient is a client of MCP servers that are child processes: for the
// demo, the examples and tests. It calls tools and nothing else.
package mcpclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	protocol "github.com/mark3labs/mcp-go/mcp"
)

// The protocol versions that a client may insist on: the last of those that begin
// with initialize, and the first of those that do without.
const (
	Legacy = protocol.ProtocolVersion20251125
	Modern = protocol.ProtocolVersion20260728
)

// A Client talks to one server. It may be used from several goroutines.
type Client struct {
	library *client.Client
	server  protocol.Implementation
	version string
	// process is nil when the server is none of ours to end.
	process *process
	tokens  atomic.Int64

	mu       sync.Mutex
	progress map[string]func(message string) // guarded by mu; by token
}

// Connect begins to talk to a server that reads what is written to out and whose
// answers come from in. The version is that of the protocol; "" takes the newest
// that both know. Close closes out; the caller closes in, which ends the client.
func Connect(ctx context.Context, in io.Reader, out io.WriteCloser, version string) (*Client, error) {
	c := &Client{progress: map[string]func(string){}}
	t := transport.NewIO(in, out, nil)
	transport.WithCommandLogger(slog.New(slog.DiscardHandler))(t)
	c.library = client.NewClient(t, client.WithProtocolVersion(version))
	c.library.OnNotification(c.notified)
	if err := c.library.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("start client: %w", err)
	}
	var init protocol.InitializeRequest
	init.Params.ProtocolVersion = version
	init.Params.ClientInfo = protocol.Implementation{Name: "cloche-client", Version: "1"}
	result, err := c.library.Initialize(ctx, init)
	if err == nil && version != "" && result.ProtocolVersion != version {
		err = fmt.Errorf("the server speaks %s, not %s", result.ProtocolVersion, version)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("initialize: %w", err), c.library.Close())
	}
	c.server, c.version = result.ServerInfo, result.ProtocolVersion
	return c, nil
}

// ServerName returns the name that the server gives itself.
func (c *Client) ServerName() string { return c.server.Name }

// ServerVersion returns the version that the server gives itself.
func (c *Client) ServerVersion() string { return c.server.Version }

// ProtocolVersion returns the version of the protocol that is spoken.
func (c *Client) ProtocolVersion() string { return c.version }

// PID returns the id of the process that Start started; 0 if Connect found the
// server running.
func (c *Client) PID() int {
	if c.process == nil {
		return 0
	}
	return c.process.cmd.Process.Pid
}

// A Tool is a tool as the server lists it.
type Tool struct {
	Name, Title, Description string
	Schema                   json.RawMessage
	// The four hints; false where the server says nothing.
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// Tools returns the server's tools in the server's order.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	listed, err := c.library.ListTools(ctx, protocol.ListToolsRequest{})
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	list := make([]Tool, 0, len(listed.Tools))
	for _, t := range listed.Tools {
		raw, err := json.Marshal(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("read schema of %s: %w", t.Name, err)
		}
		is := func(hint *bool) bool { return hint != nil && *hint }
		a := t.Annotations
		list = append(list, Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, Schema: raw,
			ReadOnly: is(a.ReadOnlyHint), Destructive: is(a.DestructiveHint), Idempotent: is(a.IdempotentHint), OpenWorld: is(a.OpenWorldHint),
		})
	}
	return list, nil
}

// A Result is what a call answered.
type Result struct {
	Text   []string
	Images []Image
	// Structured is the structured content, nil if there is none.
	Structured json.RawMessage
	// IsError says that the server did not carry the call out.
	IsError bool
}

// An Image is one image of a result.
type Image struct {
	MediaType string
	Data      []byte
}

// A CallOption changes one call.
type CallOption func(c *Client, params *protocol.CallToolParams) (undo func())

// OnProgress has report called with the server's messages about how far the call
// is, one after the other, before Call returns.
func OnProgress(report func(message string)) CallOption {
	return func(c *Client, params *protocol.CallToolParams) func() {
		token := "p" + strconv.FormatInt(c.tokens.Add(1), 10)
		params.Meta.ProgressToken = token
		c.mu.Lock()
		c.progress[token] = report
		c.mu.Unlock()
		return func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.progress, token)
		}
	}
}

// Meta adds a value to the call's _meta.
func Meta(key string, value any) CallOption {
	return func(_ *Client, params *protocol.CallToolParams) func() {
		params.Meta.SetMetaField(key, value)
		return func() {}
	}
}

// Call calls a tool with args: nil, or what encoding/json makes an object of. An
// error means that there is no result: the server broke off or knows no such
// tool. When ctx ends, the server is told to end the call.
func (c *Client) Call(ctx context.Context, name string, args any, options ...CallOption) (Result, error) {
	var req protocol.CallToolRequest
	req.Params = protocol.CallToolParams{Name: name, Arguments: args, Meta: &protocol.Meta{}}
	for _, option := range options {
		defer option(c, &req.Params)()
	}
	answer, err := c.library.CallTool(ctx, req)
	if err != nil {
		return Result{}, fmt.Errorf("call %s: %w", name, err)
	}
	result := Result{Structured: answer.RawStructuredContent, IsError: answer.IsError}
	for _, content := range answer.Content {
		switch content := content.(type) {
		case protocol.TextContent:
			result.Text = append(result.Text, content.Text)
		case protocol.ImageContent:
			data, err := base64.StdEncoding.DecodeString(content.Data)
			if err != nil {
				return Result{}, fmt.Errorf("read image of %s: %w", name, err)
			}
			result.Images = append(result.Images, Image{MediaType: content.MIMEType, Data: data})
		}
	}
	return result, nil
}

// notified takes a notification of the server.
func (c *Client) notified(n protocol.JSONRPCNotification) {
	if n.Method != string(protocol.MethodNotificationProgress) {
		return
	}
	token, _ := n.Params.AdditionalFields["progressToken"].(string)
	message, _ := n.Params.AdditionalFields["message"].(string)
	c.mu.Lock()
	report := c.progress[token]
	c.mu.Unlock()
	if report != nil {
		report(message)
	}
}

// Close ends the conversation with the server; calls in flight fail. If Start
// started the server, Close waits for it to end and returns an error if it did
// not end well, or had to be killed.
func (c *Client) Close() error {
	err := c.library.Close()
	if c.process != nil {
		return errors.Join(err, c.process.end())
	}
	return err
}
