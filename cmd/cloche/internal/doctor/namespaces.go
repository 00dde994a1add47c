package doctor

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// kinds are those that sandboxes are made of, by their names in /proc/PID/ns, and
// what people call them.
var kinds = []struct{ name, called string }{
	{"user", "user"}, {"mnt", "mount"}, {"pid", "process"}, {"net", "network"}, {"ipc", "IPC"}, {"uts", "host name"}, {"cgroup", "control group"},
}

// namespaces tells whether those of a shim and of a sandbox can be made, and
// what forbids it.
func (h *Host) namespaces(t trial, err error) Finding {
	const name = "namespaces"
	for _, k := range kinds {
		if !h.there("proc/self/ns/" + k.name) {
			return missing(name, "this kernel was built without "+k.called+" namespaces", h.newKernel())
		}
	}
	if err != nil {
		return beyond(name, Missing, fmt.Sprintf("they could not be tried: %v", err), "run cloche doctor once more; if it says the same, it is a mistake of cloche's")
	}
	step, code := t.refused()
	if code == 0 {
		var all []string
		for _, k := range kinds {
			all = append(all, k.called)
		}
		return good(name, "user namespaces can be made, and in them all others: "+strings.Join(all[1:], ", "))
	}
	if f, ok := h.forbidden(name, step, code); ok {
		return f
	}
	detail := fmt.Sprintf("%s refused (%v)%s", called(step), code, h.evidence(step))
	if where, remedy, or := h.container(); where != "" {
		return Finding{Name: name, State: Missing, Detail: detail + ", by " + where + " that this runs in", Remedy: remedy, Or: or}
	}
	if f := missing(name, detail+", though no switch of the kernel forbids it: something that confines this process does", h.asRoot(self()+" doctor")); h.uid != 0 {
		return f
	}
	return beyond(name, Missing, detail+", though this is root: something that confines this process does", "start cloche from where nothing confines it, as from a terminal")
}

// refused returns the first step that a sandbox needs and the kernel refused, 0
// if there is none.
func (t trial) refused() (step string, code syscall.Errno) {
	for _, step := range []string{"user", "mnt", "pid", stepProc, stepTmpfs, stepNested, "net", "ipc", "uts", "cgroup"} {
		if code := t[step]; code != 0 {
			return step, code
		}
	}
	return "", 0
}

// called is what people call a step.
func called(step string) string {
	switch step {
	case stepProc:
		return "a user namespace can be made, but mounting /proc in it is"
	case stepTmpfs:
		return "a user namespace can be made, but mounting memory in it is"
	case stepNested:
		return "a user namespace within another one is"
	}
	for _, k := range kinds {
		if k.name == step {
			return k.called + " namespaces are"
		}
	}
	return step + " is"
}

// forbidden looks for the switch of the kernel that forbids step.
func (h *Host) forbidden(name, step string, code syscall.Errno) (Finding, bool) {
	for _, k := range kinds {
		sysctl := "user.max_" + k.name + "_namespaces"
		file := "proc/sys/user/max_" + k.name + "_namespaces"
		if k.name != step && (k.name != "user" || step != stepNested) {
			continue
		}
		remedy := h.asRoot("sysctl -w " + sysctl + "=15000")
		switch {
		case h.read(file) == "0":
			return missing(name, fmt.Sprintf("no %s namespaces are allowed (%s is 0)", k.called, sysctl), remedy), true
		case code == unix.ENOSPC:
			return missing(name, fmt.Sprintf("as many %s namespaces as are allowed are in use", k.called), remedy), true
		}
	}
	if h.uid == 0 {
		return Finding{}, false // the others are about ordinary users
	}
	if h.read("proc/sys/kernel/unprivileged_userns_clone") == "0" {
		return missing(name, "ordinary users may make no user namespaces", h.asRoot("sysctl -w kernel.unprivileged_userns_clone=1")), true
	}
	const appArmor = "apparmor_restrict_unprivileged_userns"
	if h.read("proc/sys/kernel/"+appArmor) == "1" && (code == unix.EPERM || code == unix.EACCES) {
		return Finding{
			Name: name, State: Missing,
			Detail: "AppArmor takes the power over their own namespaces from programs of ordinary users that no profile names: " + called(step) + " refused",
			Remedy: h.profile(), Or: h.asRoot("sysctl -w kernel." + appArmor + "=0"),
		}, true
	}
	return Finding{}, false
}

// profile makes one for AppArmor that lets this program make user namespaces.
// It is this program that makes them, also for the shim.
func (h *Host) profile() string {
	const file = "/etc/apparmor.d/cloche"
	text := `abi <abi/4.0>,\ninclude <tunables/global>\nprofile cloche "%s" flags=(unconfined) {\n  userns,\n}\n`
	return fmt.Sprintf("printf '%s' %s | ", text, self()) + h.asRoot("tee "+file, "apparmor_parser -r "+file)
}

// evidence tells what can be seen of what refused step.
func (h *Host) evidence(step string) string {
	if covered := h.covered(); step == stepProc && covered != "" {
		return ": parts of /proc are covered, such as " + covered + ", and the kernel then gives nobody a whole one"
	}
	for line := range strings.Lines(h.read("proc/self/status")) {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok && strings.TrimSpace(mode) == "2" {
			return ": a filter of system calls is in force"
		}
	}
	return ""
}

// covered returns something below /proc that something else is mounted on, "" if
// there is nothing. What the kernel itself keeps empty for mounts does not count.
func (h *Host) covered() string {
	for line := range strings.Lines(h.read("proc/self/mountinfo")) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[4], "/proc/") || f[4] == "/proc/sys/fs/binfmt_misc" || f[4] == "/proc/fs/nfsd" {
			continue
		}
		return f[4]
	}
	return ""
}

// dockerOptions make Docker forbid nothing that sandboxes need.
const dockerOptions = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"

// container returns what this runs in, "" if in no container that is known, and
// how that is to be started for sandboxes to work in it.
func (h *Host) container() (where, remedy, or string) {
	switch {
	case h.env("KUBERNETES_SERVICE_HOST") != "":
		const spec = `{"spec":{"template":{"spec":{"hostUsers":false,"containers":[{"name":"CONTAINER","securityContext":` +
			`{"procMount":"Unmasked","seccompProfile":{"type":"Unconfined"},"appArmorProfile":{"type":"Unconfined"}}}]}}}}`
		return "the Kubernetes pod", "kubectl patch deployment DEPLOYMENT -p '" + spec + "'", ""
	case h.there("run/.containerenv"):
		return "the Podman container", "podman run --security-opt seccomp=unconfined --security-opt label=disable --security-opt unmask=ALL IMAGE", ""
	case h.there(".dockerenv"):
		return "the Docker container", "docker run " + dockerOptions + " IMAGE", ""
	case h.read("run/systemd/container") == "lxc":
		return "the LXC container", "lxc config set NAME security.nesting=true && lxc restart NAME", "incus config set NAME security.nesting=true && incus restart NAME"
	}
	return "", "", ""
}

// ids tells which ids sandboxes have on the host.
func (h *Host) ids() Finding {
	const name = "ids"
	if h.uid == 0 && allIDs(h.read("proc/self/uid_map")) {
		return good(name, "sandboxes have ids of their own, which no user of this host has")
	}
	return good(name, "sandboxes have one id, your own, as which all works but files of another owner; newuidmap and /etc/subuid are not used and need not be there")
}

// overlay tells whether one can be mounted where sandboxes will need it.
func (h *Host) overlay(t trial) Finding {
	const name = "overlay"
	const cost = "; what runs today needs none, keeping files from call to call will"
	where := "in a user namespace"
	if h.uid == 0 && allIDs(h.read("proc/self/uid_map")) {
		where = "by root"
	}
	memory, tried := t.tried(stepOverlay)
	disk, onDisk := t.tried(stepData)
	switch {
	case !tried:
		return limited(name, "not tried, since namespaces are missing"+cost, self()+" doctor")
	case memory == unix.ENODEV:
		return limited(name, "this kernel has no overlay loaded"+cost, h.asRoot("modprobe overlay"))
	case memory != 0:
		return beyond(name, Limited, fmt.Sprintf("none can be mounted %s (%v)%s", where, memory, cost), "a newer kernel may, and so may one that no security module confines")
	case onDisk && disk != 0:
		return limited(name, fmt.Sprintf("one can be mounted %s, but not on the file system of the data directory (%v)%s", where, disk, cost), "cloche --data-dir DIR doctor")
	case !onDisk:
		return good(name, "one can be mounted "+where)
	}
	return good(name, "one can be mounted "+where+", on the file system of the data directory too")
}
