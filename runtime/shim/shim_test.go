package shim

import (
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// newRunner returns a Runner with the real shim; it is closed with the test.
func newRunner(tb testing.TB) *Runner {
	tb.Helper()
	need.Namespaces(tb)
	need.Python(tb)
	r := New(Options{
		Path: need.Shim(tb), Instance: "test-" + strings.ToLower(rand.Text()),
		Log: slog.New(slog.NewTextHandler(tb.Output(), nil)), Stderr: tb.Output(),
	})
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Errorf("close the runner: %v", err)
		}
	})
	return r
}
