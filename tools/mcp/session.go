package mcp

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// session is what the library knows of a stdio connection. The library's own is
// one for the whole process.
type session struct {
	log         *slog.Logger
	initialized atomic.Bool
	notices     chan protocol.JSONRPCNotification

	mu           sync.Mutex
	client       protocol.Implementation     // guarded by mu
	capabilities protocol.ClientCapabilities // guarded by mu
	version      string                      // guarded by mu; of the protocol
}

var (
	_ server.SessionWithClientInfo      = (*session)(nil)
	_ server.SessionWithProtocolVersion = (*session)(nil)
)

func newSession(log *slog.Logger) *session {
	return &session{log: log, notices: make(chan protocol.JSONRPCNotification, 100)}
}

func (s *session) SessionID() string { return "stdio" }
func (s *session) Initialize()       { s.initialized.Store(true) }
func (s *session) Initialized() bool { return s.initialized.Load() }

// NotificationChannel is for what the library itself has to tell the client in
// the course of a request; see conn.answer. Progress goes another way.
func (s *session) NotificationChannel() chan<- protocol.JSONRPCNotification { return s.notices }

func (s *session) GetClientInfo() protocol.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// SetClientInfo is called by initialize, and by each request since 2026-07-28.
func (s *session) SetClientInfo(client protocol.Implementation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client.Name != s.client.Name || client.Version != s.client.Version {
		s.log.Info("client", slog.String("name", cut(client.Name)), slog.String("version", cut(client.Version)))
	}
	s.client = client
}

func (s *session) GetClientCapabilities() protocol.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

func (s *session) SetClientCapabilities(capabilities protocol.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capabilities = capabilities
}

func (s *session) ProtocolVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *session) SetProtocolVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// clientOf returns the name and version that the client of a request gives
// itself: in the request since 2026-07-28, before that once a session.
func clientOf(ctx context.Context) string {
	var client protocol.Implementation
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		if info.ClientInfo != nil {
			client = *info.ClientInfo
		}
	} else if s, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		client = s.GetClientInfo()
	}
	switch {
	case client.Name == "":
		return ""
	case client.Version == "":
		return cut(client.Name)
	}
	return cut(client.Name) + " " + cut(client.Version)
}

// cut shortens what a client says of itself.
func cut(s string) string {
	return s[:min(len(s), 100)]
}
