package chain

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/tools"
)

// BenchmarkChain measures what all links cost around a tool that does nothing,
// its line in the log included, by the size of its arguments.
func BenchmarkChain(b *testing.B) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil)) //nolint:sloglint // the line is to be made, as it is for a server
	set := conversation.NewSet(b.Context(), conversation.Options{Log: log})
	defer set.Close(context.WithoutCancel(b.Context()))
	policy := config.Default()
	c := &Chain{
		Policy: func() *config.Config { return &policy }, Conversations: set,
		Principal: "local", Hint: "process", Log: log,
	}
	for _, bb := range []struct {
		name  string
		bytes int
	}{{"small", 10}, {"4 MB", 4_000_000}} {
		tool := fake(quiet)
		tool.Queued = true
		tool = c.Wrap(tool)
		arguments := json.RawMessage(`{"text":"` + strings.Repeat("x", bb.bytes) + `","seconds":5}`)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tool.Run(b.Context(), &tools.Call{Tool: tool.Name, Arguments: arguments}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
