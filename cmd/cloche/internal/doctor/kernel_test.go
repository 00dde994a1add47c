package doctor

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKernel(t *testing.T) {
	newer := "sudo apt-get install linux-image-" + runtime.GOARCH + " && sudo reboot"
	const docker = "docker run --runtime=runc --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined IMAGE"
	for _, test := range []struct {
		name, release, build string
		state                State
		detail, remedy       string
	}{
		{"new", "6.18.44", "", OK, "Linux 6.18.44", ""},
		{"oldest", "5.12.0", "", OK, "5.12.0", ""},
		{"oldest, short", "5.12", "", OK, "5.12", ""},
		{"one too old", "5.11.22-generic", "", Missing, "5.12 or newer is needed", newer},
		{"old", "4.19.0-26-amd64", "", Missing, "5.12 or newer is needed", newer},
		{"none", "", "", Limited, "cannot be read", ""},
		{"no number", "next", "", Limited, "cannot be read", ""},
		{"gVisor", "4.4.0", "#1 SMP Sun Jan 10 15:06:54 PST 2016", Missing, "gVisor", docker},
		{"gVisor by name", "4.19.0-gvisor", "", Missing, "gVisor", docker},
		{"WSL 1", "4.4.0-19041-Microsoft", "", Missing, "WSL 1", "wsl --set-version Debian 2"},
		{"WSL 2", "5.15.153.1-microsoft-standard-WSL2", "", OK, "5.15.153", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := madeUp(t, 1000, nil)
			h.release, h.build = test.release, test.build
			h.setenv(map[string]string{"WSL_DISTRO_NAME": "Debian"})
			says(t, h.kernel(), test.state, test.detail, test.remedy)
		})
	}
	h := madeUp(t, 1000, nil)
	h.release = "4.4.0-19041-Microsoft"
	says(t, h.kernel(), Missing, "WSL 1", "wsl --set-version DISTRIBUTION 2")
}

func TestSeccomp(t *testing.T) {
	const file = "proc/sys/kernel/seccomp/actions_avail"
	newer := "apt-get install linux-image-" + runtime.GOARCH + " && reboot"
	says(t, madeUp(t, 0, nil).seccomp(works()), OK, "instructions loads", "")
	says(t, madeUp(t, 0, nil).seccomp(nil), OK, "was not tried", "")
	says(t, madeUp(t, 0, nil).seccomp(trial{stepSeccomp: unix.EPERM}), Missing, "does not load: operation not permitted", "")
	says(t, madeUp(t, 0, map[string]string{file: absent}).seccomp(works()), Missing, "built without filters", newer)
	says(t, madeUp(t, 0, map[string]string{file: "kill_thread errno allow"}).seccomp(works()), Missing, "the answer kill_process", newer)
	says(t, madeUp(t, 0, map[string]string{file: "kill_process allow"}).seccomp(works()), Missing, "the answer errno", newer)
}
