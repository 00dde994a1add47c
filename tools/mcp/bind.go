package mcp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/tools"
)

// bind makes a tool of the library's out of one of ours.
func (s *Server) bind(tool tools.Tool, icons []protocol.Icon) server.ServerTool {
	return server.ServerTool{
		Tool: protocol.Tool{
			Name:           tool.Name,
			Title:          tool.Title,
			Description:    tool.Doc,
			RawInputSchema: tool.Schema,
			// The library's defaults would call a tool destructive.
			Annotations: protocol.ToolAnnotation{
				Title:           tool.Title,
				ReadOnlyHint:    &tool.ReadOnly,
				DestructiveHint: &tool.Destructive,
				IdempotentHint:  &tool.Idempotent,
				OpenWorldHint:   &tool.OpenWorld,
			},
			Icons: icons,
		},
		Handler: func(ctx context.Context, req protocol.CallToolRequest) (*protocol.CallToolResult, error) {
			return s.call(ctx, &tool, req), nil
		},
	}
}

// call carries one call out. What goes wrong is a result too: to most hosts an
// error of the protocol means that the server is broken.
func (s *Server) call(ctx context.Context, tool *tools.Tool, req protocol.CallToolRequest) *protocol.CallToolResult {
	r := requestOf(ctx)
	if r != nil {
		if r.refused != nil {
			return failed(r.refused)
		}
	}
	call := &tools.Call{
		Tool:      tool.Name,
		Arguments: arguments(req),
		Client:    clientOf(ctx),
	}
	switch {
	case r == nil:
	case r.arguments == nil:
		r.begin()
	default:
		// One after the other is read, so that not all are there in several forms
		// at once.
		call.Arguments, r.arguments = r.arguments, nil
		call.Read = r.begin
	}
	if len(req.Header) > 0 {
		call.Header = req.Header
	}
	var p *progress
	if meta := req.Params.Meta; meta != nil {
		call.Meta = meta.AdditionalFields
		if p = s.progress(ctx, r, meta.ProgressToken); p != nil {
			call.Progress = p.report
		}
	}
	result, err := run(ctx, tool, call)
	p.end(ctx)
	if err == nil {
		var answer *protocol.CallToolResult
		if answer, err = answered(result); err == nil {
			return answer
		}
	}
	return failed(s.explain(ctx, call, err))
}

// arguments returns the bytes that the client sent, in which integers of any
// size survive.
func arguments(req protocol.CallToolRequest) json.RawMessage {
	raw := req.Params.RawArguments
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// panicked is the error of a tool that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// run calls the tool and turns a panic into an error.
func run(ctx context.Context, tool *tools.Tool, call *tools.Call) (result tools.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	return tool.Run(ctx, call)
}

// explain returns what the agent may know of err. What no link of the chain has
// explained, and so logged, goes to the log here.
func (s *Server) explain(ctx context.Context, call *tools.Call, err error) *fault.Error {
	f, explained := errors.AsType[*fault.Error](err)
	if explained && f.Kind() != fault.Internal {
		return f
	}
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		if errors.Is(cause, ErrStopping) {
			return stopping()
		}
		return fault.Wrap(fault.Gone, cause, "the call was ended before it was done; call again")
	}
	if explained {
		return f
	}
	id := rand.Text()[:10]
	s.log.ErrorContext(ctx, "call failed", slog.String("tool", call.Tool), slog.String("call", call.Name()),
		slog.String("id", id), slog.Any("error", err))
	return fault.Wrap(fault.Internal, err, "internal error, id %s; try again, and if it stays, tell the administrator this id", id)
}

// stopping is what calls are told that the server takes no more.
func stopping() *fault.Error {
	return fault.Wrap(fault.Unavailable, ErrStopping, "the server is stopping; call again when it is back")
}

// answered makes a result of the library's. An error is one of the tool: a value
// that is no JSON.
func answered(result tools.Result) (*protocol.CallToolResult, error) {
	answer := &protocol.CallToolResult{IsError: result.IsError}
	images := false
	for _, c := range result.Content {
		if c.MediaType == "" {
			answer.Content = append(answer.Content, protocol.NewTextContent(c.Text))
			continue
		}
		images = true
		answer.Content = append(answer.Content, protocol.NewImageContent(base64.StdEncoding.EncodeToString(c.Data), c.MediaType))
	}
	// Some hosts show the model nothing else where there is structured content.
	if result.Structured == nil || images {
		return answer, nil
	}
	raw, err := json.Marshal(result.Structured)
	if err != nil {
		return nil, fmt.Errorf("encode structured content: %w", err)
	}
	if string(raw) != "null" {
		answer.RawStructuredContent = raw
	}
	return answer, nil
}

// failed tells a fault twice, since clients show the model the text or the
// structured content, and not always both.
func failed(f *fault.Error) *protocol.CallToolResult {
	type told struct {
		Kind fault.Kind `json:"kind"`
		Text string     `json:"text"`
		// Seconds after which the call may be repeated; not there if nobody knows.
		RetryAfter float64 `json:"retry_after_seconds,omitempty"`
	}
	return &protocol.CallToolResult{
		Content:           []protocol.Content{protocol.NewTextContent(f.Text())},
		StructuredContent: map[string]told{"error": {f.Kind(), f.Text(), f.RetryAfter().Seconds()}},
		IsError:           true,
	}
}
