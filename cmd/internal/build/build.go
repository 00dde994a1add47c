// Package build makes the real programs for tests that run them: what a user
// would build, once a test process, where every user of the machine can run it.
package build

import (
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// Root returns the top folder of the module that the working directory is in.
// A test's working directory is the folder of its package.
func Root(tb testing.TB) string {
	tb.Helper()
	return need.Tree(tb)
}

// Programs builds cloche, without cgo, and cloche-shim into one folder and
// returns the path of cloche; the shim stands beside it, where cloche looks for
// it. The programs are built once a test process and removed when it ends,
// however it ends. Programs may be called from several goroutines.
func Programs(tb testing.TB) (cloche string) {
	tb.Helper()
	need.Shim(tb)
	return need.Program(tb, "cloche", "CGO_ENABLED=0")
}
