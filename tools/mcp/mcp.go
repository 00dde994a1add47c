// Package mcp binds tools to the Model Context Protocol. Tools stay values, and
// only this package knows the library that serves them: a change of library is
// a change of this package.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"cloche.dev/cloche/tools"
)

// Causes for which the context of a call ends before the call does.
var (
	// ErrStopping ends calls that are still running when the server's time to
	// stop is over.
	ErrStopping = errors.New("the server is stopping")
	// ErrCancelled ends a call that its client does not want any more. It is not
	// answered.
	ErrCancelled = errors.New("the client cancelled the call")
)

// Options says what a Server shows of itself and what it offers.
type Options struct {
	Name, Title, Version, Description string
	// Instructions are for the model: less than 2 kB, the facts first.
	Instructions string
	// Icon is a data URI of an SVG image, shown with the server and each tool.
	Icon string
	// Tools are listed in this order. Their names differ.
	Tools []tools.Tool
	// MaxCall says how many bytes the largest call may have that any of the tools
	// takes: a longer one is refused without being held, and all that run hold no
	// more than that. Nil: as many as a message may have.
	MaxCall func() int
	// Log is where errors go that the client may not see. Nil: nowhere.
	Log *slog.Logger
}

// A Server answers the requests of clients of both eras of the protocol: those
// that begin with initialize, up to 2025-11-25, and the stateless ones since
// 2026-07-28. It may serve several connections at once.
type Server struct {
	library *server.MCPServer
	log     *slog.Logger
	limits  limits
	names   string // of the tools
	maxCall func() int
}

// New returns a server of the tools. It panics when two have the same name or
// one has no schema: mistakes of the program.
func New(o Options) *Server {
	s := &Server{log: o.Log, limits: defaultLimits(), maxCall: o.MaxCall}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	order := make(map[string]int, len(o.Tools))
	var names []string
	bound := make([]server.ServerTool, 0, len(o.Tools))
	for i, tool := range o.Tools {
		if _, twice := order[tool.Name]; twice || len(tool.Schema) == 0 {
			panic(fmt.Sprintf("tool %q: no schema, or a name that another has", tool.Name))
		}
		order[tool.Name] = i
		names = append(names, tool.Name)
		bound = append(bound, s.bind(tool, icons(o.Icon)))
	}
	s.names = strings.Join(names, ", ")
	s.library = server.NewMCPServer(o.Name, o.Version,
		server.WithTitle(o.Title),
		server.WithDescription(o.Description),
		server.WithInstructions(o.Instructions),
		server.WithIcons(icons(o.Icon)...),
		server.WithToolCapabilities(false),
		server.WithToolFilter(func(_ context.Context, list []protocol.Tool) []protocol.Tool {
			// The library sorts by name, in a slice made for this request.
			slices.SortFunc(list, func(a, b protocol.Tool) int { return cmp.Compare(order[a.Name], order[b.Name]) })
			return list
		}),
	)
	s.library.AddTools(bound...)
	return s
}

func icons(uri string) []protocol.Icon {
	if uri == "" {
		return nil
	}
	return []protocol.Icon{{Src: uri, MIMEType: "image/svg+xml", Sizes: []string{"any"}}}
}
