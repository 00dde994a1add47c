package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/shim"
)

func TestRan(t *testing.T) {
	var all shim.Setup
	all.Limits.Memory, all.Limits.CPU, all.Limits.PIDs = true, true, true
	findings := madeUp(t, 0, nil).Ran(time.Second/2, all, inventory.Inventory{Python: "3.11.2"})
	if len(findings) != 3 {
		t.Fatalf("found %+v", findings)
	}
	says(t, findings[0], OK, "started and ran Python 3.11.2 in 0.5 s", "")
	says(t, findings[1], OK, "memory, processors and processes", "")
	says(t, findings[2], Limited, "agents expect numpy, pandas, matplotlib", "apt-get install --no-install-recommends python3-numpy python3-pandas python3-matplotlib")
}

func TestLimits(t *testing.T) {
	for _, uid := range []int{0, 1000} {
		f := madeUp(t, uid, nil).limits(shim.Setup{})
		mendable(t, f)
		if f.State != Limited || uid == 0 && strings.Contains(f.Remedy, "sudo") {
			t.Errorf("without control groups, as user %d: %+v", uid, f)
		}
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
