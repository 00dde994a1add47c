package sandboxtest

import (
	"slices"
	"strings"
	"testing"

	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// inAdvance are modules that any Python has, and one that none has.
var inAdvance = []string{"random", "ssl", "tempfile", "uuid", "no_such_module"}

// preloaded: sandboxes have the same modules from the same place, and nothing
// else in common.
func preloaded(t *testing.T, r sandbox.Runner) {
	p, ok := r.(sandbox.Preloader)
	if !ok {
		t.Skip("this Runner imports nothing in advance")
	}
	spec := Spec()
	spec.Preload = inAdvance
	early, err := pydriver.Start(t.Context(), r, spec, inAdvance) // does not wait for imports
	if err != nil {
		t.Fatal(err)
	}
	box := &Box{early, nil, t}
	if got := box.Run("import uuid; print(1+1)"); got.Out != "2\n" {
		t.Errorf("a sandbox that may come without modules: %+v", got)
	}
	if err := early.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy = %v", err)
	}
	if err := p.Preloaded(t.Context(), spec); err != nil {
		t.Fatalf("Preloaded = %v", err)
	}
	boxes := []*Box{Start(t, r, Spec(), inAdvance...), Start(t, r, Spec(), inAdvance...)}
	for _, b := range boxes {
		_, loaded, skipped := b.Modules()
		if !slices.Equal(loaded, inAdvance[:4]) || len(skipped) != 1 || !strings.Contains(skipped["no_such_module"], "No module named") {
			t.Errorf("loaded %v, skipped %v", loaded, skipped)
		}
		if !b.Complete() {
			t.Error("the sandbox is not complete")
		}
	}
	nothingInCommon(t, boxes)
	ownChance(t, boxes)
}

// nothingInCommon: what a call does to modules, and to its process, is in no
// other sandbox, and not in the next call.
func nothingInCommon(t *testing.T, boxes []*Box) {
	const look = `
import builtins, os, random, sys, threading
print(hasattr(random, "mark"), hasattr(builtins, "mark"), "MARK" in os.environ, "mark" in sys.modules,
      sorted(map(int, os.listdir("/proc/self/fd")))[:-1], threading.active_count(), len(os.listdir("/proc/self/task")))
`
	const want = "False False False False [0, 1, 2] 1 1\n"
	if got := boxes[0].Print(look); got != want {
		t.Errorf("at first %q, want %q", got, want)
	}
	boxes[0].Print(`
import builtins, os, random, sys
random.mark = builtins.mark = sys.modules["mark"] = True
os.environ["MARK"] = "x"
os.open("/dev/null", os.O_RDONLY)
`)
	for i, b := range boxes {
		if got := b.Print(look); got != want {
			t.Errorf("sandbox %d, after a call has left marks: %q, want %q", i, got, want)
		}
	}
}

// ownChance: what is random is not the same twice, of as many calls as make the
// ids of processes the same, in two sandboxes.
func ownChance(t *testing.T, boxes []*Box) {
	const draw = `
import random, secrets, ssl, tempfile, uuid
print(random.random(), random.SystemRandom().random(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(),
      next(tempfile._get_candidate_names()), uuid.uuid4(), random.getrandbits(64))
`
	seen := map[string]string{}
	for i, b := range boxes {
		for range 20 {
			for kind, value := range strings.Fields(b.Print(draw)) {
				if other, ok := seen[value]; ok {
					t.Errorf("value %d, %s, of sandbox %d: %s had it", kind, value, i, other)
				}
				seen[value] = "a call before"
			}
		}
	}
}
