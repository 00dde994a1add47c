package doctor

import (
	"fmt"
	"strings"
	"time"

	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/shim"
)

// A Run is what came of code in a sandbox.
type Run struct {
	Took      time.Duration
	Setup     shim.Setup
	Inventory inventory.Inventory
	// Template is why the sandbox was not forked from one, nil if it was.
	Template error
}

// Ran tells of a sandbox that was started, after Look had found what it found,
// and ran code: how long it took, what is limited in it, what it has.
func (h *Host) Ran(found []Finding, r Run) []Finding {
	var groups Finding
	for _, f := range found {
		if f.Name == groupsName {
			groups = f
		}
	}
	return []Finding{
		good("sandbox", fmt.Sprintf("started and ran Python %s in %s", r.Inventory.Python, human.Seconds(r.Took))),
		h.template(r.Template),
		h.limits(r.Setup, groups),
		h.modules(r.Inventory),
	}
}

// template says whether sandboxes are forked from one.
func (h *Host) template(err error) Finding {
	const name = "template"
	if err == nil {
		return good(name, "sandboxes are forked from one process, so that modules are imported once for all")
	}
	f := limited(name, "sandboxes start without one, more slowly, and each call imports what it needs: "+h.o.Readable(err), "")
	f.Why = "the kernel, or what guards it, does not let a process be forked into a container; the log says where it failed"
	return f
}

// NotTried is about the sandbox of a host on which something is missing.
func NotTried() Finding {
	return missing("sandbox", "not tried; mend what is missing above, then try again", "cloche doctor")
}

// Failed tells why there is no sandbox, though nothing that was looked at
// forbids it, with the last line of the log.
func (h *Host) Failed(err error, log string) Finding {
	detail := h.o.Readable(err)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if last := lines[len(lines)-1]; last != "" {
		detail += "; the log ends: " + last
	}
	return missing("sandbox", detail, BuildShim())
}

// limits is mended by what mends the finding about control groups.
func (h *Host) limits(setup shim.Setup, groups Finding) Finding {
	const name = "limits"
	if setup.Limits.All() {
		return good(name, "memory, processors and processes, by control groups (version "+cgroupVersion()+")")
	}
	f := limited(name, "no control group may be used for all of them: "+setup.Instead(), groups.Remedy)
	f.Or, f.Why = groups.Or, groups.Why
	if groups.State == OK {
		f.Why = "a control group could be made a moment ago; try again"
	}
	return f
}

func cgroupVersion() string {
	if cgroup.V2() {
		return "2"
	}
	return "1"
}

// modules says which of the usual libraries an agent will miss.
func (h *Host) modules(inv inventory.Inventory) Finding {
	absent := map[string]string{"numpy": "python3-numpy", "pandas": "python3-pandas", "matplotlib": "python3-matplotlib"}
	for _, p := range inv.Packages {
		delete(absent, strings.ToLower(p.Name))
	}
	if len(absent) == 0 {
		return good("libraries", "numpy, pandas and matplotlib are there")
	}
	var names, packages []string
	for _, m := range []string{"numpy", "pandas", "matplotlib"} {
		if absent[m] != "" {
			names, packages = append(names, m), append(packages, absent[m])
		}
	}
	return limited("libraries", "agents expect "+strings.Join(names, ", "), h.install(packages...))
}
