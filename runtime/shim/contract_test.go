package shim

import (
	"testing"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

func TestRunner(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		sandboxtest.Test(t, func(t *testing.T) sandbox.Runner { return newRunner(t) })
	})
}
