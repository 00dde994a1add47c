// Package chain is what surrounds every call of every tool: one list of links,
// from the outermost to the innermost.
package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/schema"
)

// A Chain is what its links work with.
type Chain struct {
	Policy        func() *config.Config
	Conversations *conversation.Set
	// Principal is who calls when the transport knows nobody: the local user.
	Principal string
	// Hint is that of calls which bring none: one a process, or a name.
	Hint string
	Log  *slog.Logger
}

// links is the list.
func (c *Chain) links() []tools.Link {
	return []tools.Link{
		c.recovered, // a panic is an error of its call alone
		c.traced,    // one line in the log
		c.permitted, // who calls, and the policy that holds for the call
		c.checked,   // the arguments against the schema and the policy
		c.addressed, // which conversation; a call that is refused so far leaves none behind
		c.queued,    // its turn in the conversation
	}
}

// Wrap returns tool with the links around it.
func (c *Chain) Wrap(tool tools.Tool) tools.Tool {
	bare := tool
	for _, link := range slices.Backward(c.links()) {
		tool.Run = link(&bare, tool.Run)
	}
	return tool
}

// recovered turns a panic into an error, with its stack in the log.
func (c *Chain) recovered(_ *tools.Tool, next tools.Handler) tools.Handler {
	return func(ctx context.Context, call *tools.Call) (r tools.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				c.Log.ErrorContext(ctx, "a call panicked", slog.String("tool", call.Tool), slog.String("call", call.Name()),
					slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
				err = fmt.Errorf("panic: %v", p)
			}
			if err != nil {
				err = readable(call, err)
			}
		}()
		return next(ctx, call)
	}
}

// readable makes an agent's error of any error: one that is not a fault is ours,
// and the agent learns its name in the log alone.
func readable(call *tools.Call, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Internal, err, "internal error in %s; the server's log has the cause; try once more, then tell the administrator", call.Name())
}

// traced writes the line. Arguments and results are never in it: what is wrong
// with arguments only the agent is told, for that repeats some of them.
func (c *Chain) traced(_ *tools.Tool, next tools.Handler) tools.Handler {
	return func(ctx context.Context, call *tools.Call) (tools.Result, error) {
		start := time.Now()
		r, err := next(ctx, call)
		level, outcome := slog.LevelInfo, "ok"
		attrs := []slog.Attr{slog.String("tool", call.Tool)}
		if call.Conversation != nil {
			attrs = append(attrs, slog.String("conversation", call.Conversation.ID), slog.Int("call", call.Number))
		}
		if err != nil {
			kind := fault.KindOf(err)
			outcome = string(kind)
			if kind != fault.Invalid {
				attrs = append(attrs, slog.Any("error", err))
			}
			if kind == fault.Internal && ctx.Err() == nil {
				level = slog.LevelError
			}
		}
		attrs = append(attrs, slog.String("outcome", outcome), slog.Duration("took", time.Since(start)))
		c.Log.LogAttrs(ctx, level, "call", attrs...)
		return r, err
	}
}

// permitted says who calls and takes the policy of this moment.
func (c *Chain) permitted(_ *tools.Tool, next tools.Handler) tools.Handler {
	return func(ctx context.Context, call *tools.Call) (tools.Result, error) {
		if call.Principal == "" {
			call.Principal = c.Principal
		}
		call.Policy = c.Policy()
		return next(ctx, call)
	}
}

// checked replaces the arguments by checked ones. A schema that does not compile
// is a mistake of the program: Wrap panics.
func (c *Chain) checked(tool *tools.Tool, next tools.Handler) tools.Handler {
	compiled, err := schema.Compile(tool.Schema)
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", tool.Name, err))
	}
	return func(ctx context.Context, call *tools.Call) (tools.Result, error) {
		arguments, err := compiled.Check(call.Arguments)
		if err != nil {
			return tools.Result{}, err
		}
		call.Arguments = arguments
		if tool.Check != nil {
			if err := tool.Check(call); err != nil {
				return tools.Result{}, err
			}
		}
		if call.Read != nil {
			call.Read()
		}
		return next(ctx, call)
	}
}

// queued waits for the call's turn, if its tool wants one.
func (c *Chain) queued(tool *tools.Tool, next tools.Handler) tools.Handler {
	if !tool.Queued {
		return next
	}
	return func(ctx context.Context, call *tools.Call) (tools.Result, error) {
		turn, err := call.Conversation.Enter(ctx, call.Number, call.Policy.Calls.Waiting)
		if err != nil {
			return tools.Result{}, stopped(err)
		}
		defer turn.Leave()
		call.Turn = turn
		return next(ctx, call)
	}
}

// stopped makes a fault of the end of a call that waited.
func stopped(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Gone, err, "the call was cancelled while it waited for its turn; nothing was run")
}
