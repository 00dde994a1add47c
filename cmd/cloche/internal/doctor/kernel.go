package doctor

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/seccomp"
)

// oldest is the first kernel with mount_setattr(2), which the root filesystem
// is made with.
const oldestMajor, oldestMinor = 5, 12

// newKernel installs one of the distribution's.
func (h *Host) newKernel() string {
	return h.asRoot("apt-get install linux-image-"+runtime.GOARCH, "reboot")
}

func (h *Host) kernel() Finding {
	const name = "kernel"
	const gVisor = "#1 SMP Sun Jan 10 15:06:54 PST 2016" // what it always says that it is
	switch {
	case strings.Contains(h.release, "gvisor") || h.build == gVisor:
		return missing(name, "this is gVisor, which has not all that sandboxes are made with; run cloche in a container of runc's, or outside of one",
			"docker run --runtime=runc "+dockerOptions+" IMAGE")
	case strings.HasSuffix(h.release, "-Microsoft"):
		return missing(name, "Linux "+h.release+": this is WSL 1, which has no kernel of Linux; WSL 2 has. In Windows, close this and convert it",
			"wsl --set-version "+h.distribution()+" 2")
	}
	var major, minor int
	if _, err := fmt.Sscanf(h.release, "%d.%d", &major, &minor); err != nil {
		return beyond(name, Limited, fmt.Sprintf("its version %q cannot be read", h.release), "what is tried below tells whether it is new enough")
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return missing(name, fmt.Sprintf("Linux %s; %d.%d or newer is needed", h.release, oldestMajor, oldestMinor), h.newKernel())
	}
	return good(name, "Linux "+h.release)
}

// distribution is the name that WSL has for this one.
func (h *Host) distribution() string {
	if name := h.env("WSL_DISTRO_NAME"); name != "" {
		return Quoted(name)
	}
	return "DISTRIBUTION"
}

// actions are the answers of a filter that ours has, as the kernel names them.
var actions = []string{"allow", "errno", "kill_process"}

func (h *Host) seccomp(t trial) Finding {
	const name = "seccomp"
	const file = "proc/sys/kernel/seccomp/actions_avail"
	if !h.there(file) {
		return missing(name, "this kernel was built without filters of system calls", h.newKernel())
	}
	have := strings.Fields(h.read(file))
	for _, a := range actions {
		if !slices.Contains(have, a) {
			return missing(name, "the filters of this kernel do not know the answer "+a, h.newKernel())
		}
	}
	program, err := seccomp.Program()
	if err != nil {
		return beyond(name, Missing, err.Error(), "there is no list of system calls for "+runtime.GOARCH)
	}
	instructions := human.Plural(int64(len(program)/8), "instruction")
	switch code, tried := t.tried(stepSeccomp); {
	case !tried:
		return good(name, fmt.Sprintf("the kernel has all that the filter of %s asks for; whether it loads was not tried", instructions))
	case code != 0:
		return beyond(name, Missing, fmt.Sprintf("the filter of %s does not load: %v", instructions, code), "whatever started this program forbids filters; start it in another way")
	}
	return good(name, fmt.Sprintf("the filter of %s loads", instructions))
}
