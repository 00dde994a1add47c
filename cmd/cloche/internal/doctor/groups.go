package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloche.dev/cloche/runtime/cgroup"
)

const groupsName = "control groups"

// controllers are those that limits need.
var controllers = []string{"memory", "cpu", "pids"}

// makeGroup makes the control group that a server of that name would make, and
// removes it. It returns what can be limited in it, and where it was; "" if
// there can be none.
func makeGroup(instance string) (cgroup.Limits, string, error) {
	g, err := cgroup.Make(instance, os.Getuid())
	if err != nil {
		return cgroup.Limits{}, "", err
	}
	return g.Limits, g.Path, g.Remove(time.Second)
}

// A layout is what control groups of a host look like.
type layout struct {
	version string          // as people say it; "" if none are mounted
	mounted map[string]bool // the controllers that are mounted in version 1
	known   map[string]bool // the controllers that the kernel has and that are on
	options string          // of the mount of version 2
}

// layout reads it.
func (h *Host) layout() layout {
	l := layout{mounted: map[string]bool{}, known: map[string]bool{}}
	first, second := false, false
	for line := range strings.Lines(h.read("proc/self/mountinfo")) {
		before, after, _ := strings.Cut(line, " - ")
		place, fs := strings.Fields(before), strings.Fields(after)
		if len(place) < 6 || len(fs) < 3 || place[4] != "/sys/fs/cgroup" && !strings.HasPrefix(place[4], "/sys/fs/cgroup/") {
			continue
		}
		switch fs[0] {
		case "cgroup":
			for o := range strings.SplitSeq(fs[2], ",") {
				if slices.Contains(controllers, o) {
					l.mounted[o], first = true, true
				}
			}
		case "cgroup2":
			second, l.options = true, place[5]
		}
	}
	switch {
	case first && second:
		l.version = "1 with an empty 2 beside it"
	case first:
		l.version = "1"
	case second:
		l.version = "2"
	}
	for line := range strings.Lines(h.read("proc/cgroups")) {
		if f := strings.Fields(line); len(f) == 4 && f[3] == "1" {
			l.known[f[0]] = true
		}
	}
	for c := range strings.FieldsSeq(h.read("sys/fs/cgroup/cgroup.controllers")) {
		l.known[c] = true // of version 2, which newer kernels leave out of /proc/cgroups
	}
	return l
}

// groups makes a group and tells what can be limited in it. Without a name, and
// so without a place to be remembered in, none is made.
func (h *Host) groups(instance string) Finding {
	const name = groupsName
	l := h.layout()
	if l.version == "" {
		return limited(name, "none are mounted; the kernel limits a sandbox as a whole by them alone",
			h.asRoot("mkdir -p /sys/fs/cgroup", "mount -t cgroup2 cgroup2 /sys/fs/cgroup"))
	}
	detail := "version " + l.version
	if instance == "" {
		return limited(name, detail+"; not tried, since there is no data directory", self()+" doctor")
	}
	limits, path, err := h.group(instance)
	if err != nil {
		return beyond(name, Limited, fmt.Sprintf("%s; none can be made: %v", detail, err), "it is none of the known reasons; the error is all that the kernel tells")
	}
	can := map[string]bool{"memory": limits.Memory, "cpu": limits.CPU, "pids": limits.PIDs}
	var lacks []string
	for _, c := range controllers {
		if !can[c] {
			lacks = append(lacks, c)
		}
	}
	switch {
	case len(lacks) == 0:
		return good(name, detail+"; memory, cpu and pids can be used")
	case len(lacks) == len(controllers):
		detail += "; none of memory, cpu and pids can be used by this user"
	default:
		detail += "; " + strings.Join(lacks, " and ") + " cannot be used by this user, the others of memory, cpu and pids can"
	}
	return h.withoutGroups(name, detail, l, lacks, path)
}

// withoutGroups tells what gives this user the controllers in lacks.
func (h *Host) withoutGroups(name, detail string, l layout, lacks []string, path string) Finding {
	var unknown []string
	for _, c := range lacks {
		if !l.known[c] {
			unknown = append(unknown, c)
		}
	}
	switch {
	case len(unknown) > 0:
		return h.controllersOff(name, detail, unknown)
	case l.version == "2" && h.uid == 0:
		return limited(name, detail, h.divide(l))
	case l.version == "2" && path == "":
		remedy := "systemd-run --user --scope -p Delegate=yes " + self() + " stdio"
		if !h.there("run/systemd/system") {
			remedy = "sudo " + self() + " stdio" // nobody who delegates
		}
		return limited(name, detail+": no group is delegated to it", remedy)
	case l.version == "2":
		// What systemd delegates to users unless told otherwise is less.
		const dir = "/etc/systemd/system/user@.service.d"
		return limited(name, detail+": they are not delegated to it (log in again afterwards)",
			"printf '[Service]\\nDelegate=cpu memory pids\\n' | "+
				h.asRoot("install -D -m 644 /dev/stdin "+dir+"/delegate.conf", "systemctl daemon-reload"))
	case h.uid != 0:
		return limited(name, detail+": version 1 is for root alone", "sudo "+self()+" stdio")
	}
	var mounts []string
	for _, c := range lacks {
		if !l.mounted[c] {
			mounts = append(mounts, fmt.Sprintf("mkdir -p /sys/fs/cgroup/%[1]s && mount -t cgroup -o %[1]s cgroup /sys/fs/cgroup/%[1]s", c))
		}
	}
	if len(mounts) == 0 {
		return limited(name, detail+": they are mounted, but no group may be made", "mount -o remount,rw /sys/fs/cgroup/"+lacks[0])
	}
	return limited(name, detail, strings.Join(mounts, " && "))
}

// controllersOff is for controllers that the kernel has not, or has switched off
// when it started.
func (h *Host) controllersOff(name, detail string, off []string) Finding {
	detail += ": " + strings.Join(off, " and ") + " is not in this kernel, or was switched off when it started"
	if cmdline := "boot/firmware/cmdline.txt"; h.there(cmdline) { // a Raspberry Pi's
		return limited(name, detail, h.asRoot("sed -i 's/$/ cgroup_enable=memory/' /"+cmdline, "reboot"))
	}
	for word := range strings.FieldsSeq(h.read("proc/cmdline")) {
		if list, ok := strings.CutPrefix(word, "cgroup_disable="); ok && slices.ContainsFunc(off, func(c string) bool { return slices.Contains(strings.Split(list, ","), c) }) {
			return limited(name, detail, h.asRoot("sed -i 's/ *"+word+"//' /etc/default/grub", "update-grub", "reboot"))
		}
	}
	return limited(name, detail, h.newKernel())
}

// divide lets root divide the group at the root of version 2.
func (h *Host) divide(l layout) string {
	const root = "/sys/fs/cgroup"
	on := "echo '+memory +cpu +pids' > " + root + "/cgroup.subtree_control"
	switch {
	case slices.Contains(strings.Split(l.options, ","), "ro"):
		return "mount -o remount,rw " + root
	case h.there(filepath.Join(root, "cgroup.type")):
		// In a container it is not the root, and only a group without processes
		// can be divided.
		return "mkdir -p " + root + "/init && xargs -rn1 < " + root + "/cgroup.procs > " + root + "/init/cgroup.procs; " + on
	}
	return on
}
