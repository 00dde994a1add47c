package doctor

import (
	"errors"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/shim"
)

func TestRan(t *testing.T) {
	var all shim.Setup
	all.Limits.Memory, all.Limits.CPU, all.Limits.PIDs = true, true, true
	findings := madeUp(t, 0, nil).Ran(nil, Run{Took: time.Second / 2, Setup: all, Inventory: inventory.Inventory{Python: "3.11.2"}})
	if len(findings) != 4 {
		t.Fatalf("found %+v", findings)
	}
	says(t, findings[0], OK, "started and ran Python 3.11.2 in 0.5 s", "")
	says(t, findings[1], OK, "forked from one process", "")
	says(t, findings[2], OK, "memory, processors and processes", "")
	says(t, findings[3], Limited, "agents expect numpy, pandas, matplotlib", "apt-get install --no-install-recommends python3-numpy python3-pandas python3-matplotlib")
}

// TestLimits: what mends control groups mends the limits.
func TestLimits(t *testing.T) {
	h := madeUp(t, 1000, nil)
	for _, groups := range []Finding{
		limited(groupsName, "d", "mend it"),
		{Name: groupsName, State: Limited, Detail: "d", Remedy: "mend it", Or: "so"},
		beyond(groupsName, Limited, "d", "broken"),
	} {
		f := h.Ran([]Finding{good("kernel", "d"), groups, limited("disk", "d", "other")}, Run{})[2]
		says(t, f, Limited, "no control group may be used for all of them", groups.Remedy)
		if f.Or != groups.Or || f.Why != groups.Why {
			t.Errorf("found %+v, want it mended as %+v", f, groups)
		}
	}
	f := h.Ran([]Finding{good(groupsName, "d")}, Run{})[2]
	says(t, f, Limited, "no control group", "")
	var most shim.Setup
	most.Limits.Memory, most.Limits.PIDs = true, true
	says(t, h.limits(most, limited(groupsName, "d", "mend it")), Limited, "no control group", "mend it")
}

func TestTemplate(t *testing.T) {
	f := madeUp(t, 0, nil).Ran(nil, Run{Template: errors.New("not here")})[1]
	says(t, f, Limited, "start without one, more slowly, and each call imports what it needs", "")
	if f.Why == "" {
		t.Errorf("found %+v, want it to say why no command mends it", f)
	}
}

func TestModules(t *testing.T) {
	h := madeUp(t, 1000, nil)
	has := func(names ...string) (inv inventory.Inventory) {
		for _, n := range names {
			inv.Packages = append(inv.Packages, inventory.Package{Name: n})
		}
		return inv
	}
	says(t, h.modules(has("NumPy", "pandas", "matplotlib", "six")), OK, "are there", "")
	says(t, h.modules(has("pandas")), Limited, "agents expect numpy, matplotlib", "sudo apt-get install --no-install-recommends python3-numpy python3-matplotlib")
}

func TestFailed(t *testing.T) {
	says(t, madeUp(t, 0, nil).Failed(errors.New("broken"), ""), Missing, "broken", BuildShim())
	says(t, madeUp(t, 0, nil).Failed(errors.New("broken"), "first\nlast\n"), Missing, "broken; the log ends: last", BuildShim())
	says(t, NotTried(), Missing, "not tried", "cloche doctor")
}
