package mcp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	protocol "github.com/mark3labs/mcp-go/mcp"
)

const (
	// progressEvery is the least time between two notifications of one call.
	progressEvery = time.Second
	// progressSettles is how long the library needs to send a notification that
	// it took: one that is followed by the result at once is lost, or comes
	// after it (mark3labs/mcp-go#969).
	progressSettles = 5 * time.Millisecond
)

// progress tells the client of one call how far it is: at most once in
// progressEvery, in growing numbers, and never once the call is over.
type progress struct {
	// send tries to send; it does not wait for the client.
	send func(params map[string]any) bool
	// settle is how long the result has to stay behind what was sent.
	settle time.Duration
	token  any

	mu     sync.Mutex
	number int       // guarded by mu; how many were sent
	last   time.Time // guarded by mu; when the last one was
	ended  bool      // guarded by mu
}

// progress returns nil when the client did not ask for it with a token of a kind
// that the protocol knows. r is nil when the library's transport has the call.
func (s *Server) progress(ctx context.Context, r *request, token any) *progress {
	switch token.(type) {
	case string, float64:
	default:
		return nil
	}
	if r != nil {
		return &progress{token: token, send: func(params map[string]any) bool { return r.progress(ctx, params) }}
	}
	return &progress{token: token, settle: progressSettles, send: func(params map[string]any) bool {
		if err := s.library.SendNotificationToClient(ctx, string(protocol.MethodNotificationProgress), params); err != nil {
			s.log.DebugContext(ctx, "progress not sent", slog.Any("error", err))
			return false
		}
		return true
	}}
}

// report sends message, or drops it: progress is a courtesy.
func (p *progress) report(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.number > 0 && time.Since(p.last) < progressEvery {
		return
	}
	params := map[string]any{"progressToken": p.token, "progress": p.number + 1, "message": message}
	if p.send(params) {
		p.number++
		p.last = time.Now()
	}
}

// end makes sure that nothing is sent any more, and that what was sent is ahead
// of the result. A nil p has nothing to end.
func (p *progress) end(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.ended = true
	rest := p.settle - time.Since(p.last)
	p.mu.Unlock()
	if rest <= 0 {
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
