// Package sandboxtest is the contract of sandbox.Runner as tests: what every
// Runner promises of the sandboxes that it makes, seen from inside by code that
// runs there, and from the host.
package sandboxtest

import (
	"testing"

	"cloche.dev/cloche/runtime/sandbox"
)

// A promise is a test that gets a Runner which others use too.
type promise struct {
	name string
	test func(t *testing.T, r sandbox.Runner)
}

var promises = []promise{
	{"namespaces of its own", ownNamespaces},
	{"no network but loopback", onlyLoopback},
	{"root filesystem is read-only", readOnlyRoot},
	{"mounts allow no devices and no other user", harmlessMounts},
	{"mounts tell nothing of the host", silentMounts},
	{"no privilege", noPrivilege},
	{"one user", oneUser},
	{"descriptors", descriptors},
	{"devices", devices},
	{"streams", streams},
	{"names of the host", namesOfTheHost},
	{"what proc hides", hiddenProc},

	{"what will not end is killed", killed},
	{"places are empty", emptyPlaces},
	{"Refresh empties the places", refreshEmpties},
	{"Refresh removes System V objects", refreshRemovesSystemV},
	{"sequence after failure", afterFailure},
	{"sandboxes do not see each other", apart},
	{"modules in advance", preloaded},

	{"Destroy leaves nothing", destroyLeavesNothing},
	{"Destroy twice", destroyTwice},
	{"many at once", manyAtOnce},
	{"start with an ended context", startEnded},
	{"start whose context ends", startEnding},
	{"unknown image", unknownImage},
}

// limits are the promises of what a sandbox may take.
var limits = []promise{
	{"memory", memory},
	{"memory of every kind", memoryOfEveryKind},
	{"borrowed memory", borrowedMemory},
	{"a storm that takes memory", memoryStorm},
	{"System V objects have limits", systemV},
	{"no limits are the smallest", noLimits},
	{"processes", processes},
	{"fork bomb", forkBomb},
	{"processor time", processorTime},
	{"places have sizes", sizes},
	{"core dumps", coreDumps},
	{"what a process may have", counts},
	{"what the kernel counts for a user", ownCounts},
	{"descriptors on their way", onTheirWay},
	{"a user of its own", ownUser},
}

// Test runs the contract against Runners that newRunner makes. They close with
// their test.
func Test(t *testing.T, newRunner func(t *testing.T) sandbox.Runner) {
	shared := newRunner(t)
	run(t, shared, promises)
	run(t, shared, limits)
	t.Run("nothing of the server's environment", func(t *testing.T) { noEnvironment(t, newRunner) })
	t.Run("Close leaves nothing", func(t *testing.T) { closeLeavesNothing(t, newRunner) })
}

// TestStart runs the part of the contract that tells what a sandbox is like once
// it has started, and how it ends.
func TestStart(t *testing.T, r sandbox.Runner) { run(t, r, promises) }

// TestLimits runs the part of the contract that tells what sandboxes may take,
// against r.
func TestLimits(t *testing.T, r sandbox.Runner) { run(t, r, limits) }

func run(t *testing.T, r sandbox.Runner, all []promise) {
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) { p.test(t, r) })
	}
}

// Spec is a sandbox with limits like those of the default configuration.
func Spec() sandbox.Spec {
	return sandbox.Spec{Image: "host", Limits: sandbox.Limits{
		MemoryBytes: 1e9, CPUs: 1, PIDs: 1024, WorkBytes: 256e6, TmpBytes: 256e6, ShmBytes: 64e6,
	}}
}
