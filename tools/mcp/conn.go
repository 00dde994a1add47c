package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	protocol "github.com/mark3labs/mcp-go/mcp"

	"cloche.dev/cloche/policy/fault"
)

// conn is one connection to a client: the requests that are in flight on it and
// the way back. Each request has a goroutine of its own, so that none waits
// where it cannot be cancelled.
type conn struct {
	server  *Server
	session *session
	limits  limits
	out     *outbox

	mu       sync.Mutex
	requests map[string][]*request // guarded by mu; not yet answered, by keyOf their id
	count    int                   // guarded by mu; requests in flight
	bytes    int                   // guarded by mu; of their messages
	stopping bool                  // guarded by mu
	idle     chan struct{}         // closed by whoever sees stopping and no count first
	isIdle   bool                  // guarded by mu

	// noticesMu keeps what the library tells the client in order.
	noticesMu sync.Mutex
}

func newConn(s *Server) *conn {
	return &conn{
		server:   s,
		session:  newSession(s.log),
		limits:   s.limits,
		out:      newOutbox(),
		requests: map[string][]*request{},
		idle:     make(chan struct{}),
	}
}

// request is one request in flight.
type request struct {
	conn   *conn
	id     json.RawMessage
	method string
	key    string
	size   int
	// arguments are those of a large call, which the library is not to copy.
	arguments json.RawMessage
	cancel    context.CancelCauseFunc
	// begun is closed when the tool is about to be called, or will not be.
	begun     chan struct{}
	beginOnce sync.Once
	// refused is what a call is told that is not carried out.
	refused   *fault.Error
	cancelled bool // guarded by conn.mu
}

type requestKey struct{}

// requestOf returns the request that ctx belongs to, nil on another transport.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

func (r *request) begin() { r.beginOnce.Do(func() { close(r.begun) }) }

// progress sends a notification, and reports whether it could. It does not wait.
func (r *request) progress(ctx context.Context, params map[string]any) bool {
	if ctx.Err() != nil {
		return false
	}
	line, err := json.Marshal(map[string]any{
		"jsonrpc": protocol.JSONRPC_VERSION,
		"method":  protocol.MethodNotificationProgress,
		"params":  params,
	})
	return err == nil && r.conn.out.try(append(line, '\n'))
}

// take handles one message of the client. It does not wait for the tools that it
// calls. Requests that are refused are answered before it returns, which is what
// slows down a client that sends too many. ctx is that of all requests.
func (c *conn) take(ctx context.Context, line []byte) {
	ctx = c.server.library.WithContext(ctx, c.session)
	m, answer := parse(line)
	switch {
	case answer != nil:
		c.out.send(answer)
	case m.method == "":
		// A response. This server asks its client nothing.
	case m.id == nil && m.method == cancelled:
		c.cancel(line)
	case m.id == nil:
		c.server.library.HandleMessage(ctx, line)
	default:
		c.begin(ctx, m, line)
	}
}

// begin starts a request, or answers it at once if it is one too many.
func (c *conn) begin(ctx context.Context, m message, line []byte) {
	r := &request{conn: c, id: m.id, method: m.method, key: keyOf(m.id), size: len(line), begun: make(chan struct{})}
	if m.method == toolsCall && len(line) > large {
		line, r.arguments = apart(line)
	}
	ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, requestKey{}, r))
	c.mu.Lock()
	switch {
	case c.stopping:
		r.refused = stopping()
	case c.count >= c.limits.requests || c.bytes+r.size > c.maxBytes():
		r.refused = fault.New(fault.Busy, "%d requests of this client are still running; wait for some of them to end, then call again", c.count)
	}
	c.count++
	c.bytes += r.size
	c.requests[r.key] = append(c.requests[r.key], r)
	c.mu.Unlock()
	if r.refused != nil {
		c.answer(ctx, r, line)
		return
	}
	go c.answer(ctx, r, line)
	if m.method == toolsCall {
		// Goroutines begin in no order, or the wrong one. Calls that a client
		// sends one after the other are to come to their queue like that.
		<-r.begun
	}
}

// maxBytes is how many bytes the messages of all requests in flight may have.
func (c *conn) maxBytes() int {
	if c.server.maxCall == nil {
		return c.limits.bytes
	}
	return min(c.limits.bytes, c.server.maxCall())
}

// answer carries a request out and sends its response, unless it was cancelled.
func (c *conn) answer(ctx context.Context, r *request, line []byte) {
	defer c.end(r)
	response := c.response(ctx, r, line)
	c.noticesMu.Lock()
	for more := true; more; {
		select {
		case notice := <-c.session.notices:
			if line, err := json.Marshal(notice); err == nil {
				c.out.send(append(line, '\n'))
			}
		default:
			more = false
		}
	}
	c.noticesMu.Unlock()
	if c.settle(r) {
		c.out.send(response)
	}
}

// response has the library carry the request out.
func (c *conn) response(ctx context.Context, r *request, line []byte) (response []byte) {
	// Whoever waits for the tool to be called must not wait for the client to
	// read the response, too.
	defer r.begin()
	defer func() {
		if v := recover(); v != nil {
			c.server.log.ErrorContext(ctx, "request failed", slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			response = errorLine(r.id, internalError, "internal error")
		}
	}()
	if text := c.server.refuse(r.method, line); text != "" {
		return errorLine(r.id, invalidParams, text)
	}
	answer := c.server.library.HandleMessage(ctx, line)
	if e, ok := answer.(protocol.JSONRPCError); ok {
		e.Error.Message = c.server.reword(r.method, line, e.Error.Code, e.Error.Message)
		answer = e
	}
	response, err := encode(r.id, answer)
	if err != nil {
		c.server.log.ErrorContext(ctx, "response not encoded", slog.Any("error", err))
		return errorLine(r.id, internalError, "internal error")
	}
	return response
}

// settle takes the request out of what can be cancelled, and reports whether it
// was not.
func (c *conn) settle(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := slices.DeleteFunc(c.requests[r.key], func(other *request) bool { return other == r })
	if c.requests[r.key] = rest; len(rest) == 0 {
		delete(c.requests, r.key)
	}
	return !r.cancelled
}

// end forgets a request that has been answered or needs no answer.
func (c *conn) end(r *request) {
	r.cancel(nil)
	c.settle(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
	c.bytes -= r.size
	c.checkIdle()
}

// cancel ends the request that the client names, if it is in flight. A client
// that has several in flight under one id, which it may not, cancels them all.
func (c *conn) cancel(line []byte) {
	var notification struct {
		Params struct {
			RequestID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if err := json.Unmarshal(line, &notification); err != nil {
		return
	}
	id := validID(notification.Params.RequestID)
	if id == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests[keyOf(id)] {
		r.cancelled = true
		r.cancel(ErrCancelled)
	}
}

// drain refuses calls from now on and returns a channel that is closed when none
// is in flight.
func (c *conn) drain() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	c.checkIdle()
	return c.idle
}

// Preconditions: c.mu is held.
func (c *conn) checkIdle() {
	if c.stopping && c.count == 0 && !c.isIdle {
		c.isIdle = true
		close(c.idle)
	}
}

func (c *conn) inFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}
