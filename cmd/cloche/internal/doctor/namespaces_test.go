package doctor

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNamespaces(t *testing.T) {
	const appArmor = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	const clone = "proc/sys/kernel/unprivileged_userns_clone"
	most := func(kind string) string { return "proc/sys/user/max_" + kind + "_namespaces" }
	newKernel := "sudo apt-get install linux-image-" + runtime.GOARCH + " && sudo reboot"
	const docker = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined IMAGE"
	const podman = "podman run --security-opt seccomp=unconfined --security-opt label=disable --security-opt unmask=ALL IMAGE"
	for _, test := range []struct {
		name           string
		uid            int
		files          map[string]string
		try            trial
		state          State
		detail, remedy string
	}{
		{"allowed", 1000, map[string]string{most("user"): "15000\n", clone: "1\n", appArmor: "0\n"}, works(), OK, "in them all others: mount, process, network, IPC, host name, control group", ""},
		{"no switches", 1000, nil, works(), OK, "can be made", ""},
		{"allowed by a profile", 1000, map[string]string{appArmor: "1\n"}, works(), OK, "can be made", ""},
		{"not built in", 1000, map[string]string{"proc/self/ns/user": absent}, works(), Missing, "built without user namespaces", newKernel},
		{"one not built in", 1000, map[string]string{"proc/self/ns/cgroup": absent}, works(), Missing, "built without control group namespaces", newKernel},
		{"none", 1000, map[string]string{most("user"): "0\n"}, trial{"user": unix.ENOSPC}, Missing, "no user namespaces are allowed (user.max_user_namespaces is 0)", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"none for root", 0, map[string]string{most("user"): "0\n"}, trial{"user": unix.ENOSPC}, Missing, "no user namespaces are allowed", "sysctl -w user.max_user_namespaces=15000"},
		{"one level alone", 1000, map[string]string{most("user"): "1\n"}, trial{"user": 0, stepNested: unix.ENOSPC}, Missing, "as many user namespaces as are allowed are in use", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"no network", 1000, map[string]string{most("net"): "0\n"}, trial{"user": 0, "net": unix.ENOSPC}, Missing, "no network namespaces are allowed (user.max_net_namespaces is 0)", "sudo sysctl -w user.max_net_namespaces=15000"},
		{"no groups, and a bystander", 1000, map[string]string{most("cgroup"): "0\n", most("net"): "0\n"}, trial{"net": 0, "cgroup": unix.ENOSPC}, Missing, "user.max_cgroup_namespaces is 0", "sudo sysctl -w user.max_cgroup_namespaces=15000"},
		{"all in use", 1000, nil, trial{"mnt": unix.ENOSPC}, Missing, "as many mount namespaces as are allowed are in use", "sudo sysctl -w user.max_mnt_namespaces=15000"},
		{"not for users", 1000, map[string]string{clone: "0\n"}, trial{"user": unix.EPERM}, Missing, "ordinary users may make no user namespaces", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"not for users, but root", 0, map[string]string{clone: "0\n", appArmor: "1\n"}, works(), OK, "can be made", ""},
		{"in Docker", 0, map[string]string{".dockerenv": "", "proc/self/status": "Name:\tx\nSeccomp:\t2\n"}, trial{"user": unix.EPERM}, Missing, "user namespaces are refused (operation not permitted): a filter of system calls is in force, by the Docker container", docker},
		{
			"in Docker, masked", 0,
			map[string]string{".dockerenv": "", "proc/self/mountinfo": "1 0 0:1 / /proc rw - proc proc rw\n2 1 0:2 / /proc/kcore rw - tmpfs tmpfs rw\n"},
			trial{"user": 0, "mnt": 0, "pid": 0, stepProc: unix.EPERM},
			Missing, "mounting /proc in it is refused (operation not permitted): parts of /proc are covered, such as /proc/kcore,", docker,
		},
		{"in Podman", 0, map[string]string{"run/.containerenv": ""}, trial{"user": unix.EPERM}, Missing, "by the Podman container", podman},
		{"in a container that allows them", 0, map[string]string{"run/.containerenv": ""}, works(), OK, "can be made", ""},
		{"in LXC", 0, map[string]string{"run/systemd/container": "lxc\n"}, trial{stepProc: unix.EACCES}, Missing, "by the LXC container", "lxc config set NAME security.nesting=true && lxc restart NAME"},
		{"memory", 1000, nil, trial{stepTmpfs: unix.EPERM}, Missing, "mounting memory in it is refused (operation not permitted), though no switch", "sudo " + self() + " doctor"},
		{"nested", 1000, nil, trial{stepNested: unix.EPERM}, Missing, "a user namespace within another one is refused", "sudo " + self() + " doctor"},
		{"for no known reason", 1000, nil, trial{"user": unix.EPERM}, Missing, "though no switch of the kernel forbids it", "sudo " + self() + " doctor"},
		{"for no known reason, as root", 0, nil, trial{"user": unix.EPERM}, Missing, "though this is root", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			says(t, madeUp(t, test.uid, test.files).namespaces(test.try, nil), test.state, test.detail, test.remedy)
		})
	}
	says(t, madeUp(t, 0, nil).namespaces(nil, errors.New("broken")), Missing, "could not be tried: broken", "")
}

// TestAppArmor: where it allows a namespace but takes the power over it, as where
// it refuses it, both remedies are named.
func TestAppArmor(t *testing.T) {
	files := map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n", ".dockerenv": ""}
	for name, try := range map[string]trial{
		"power taken": {"user": 0, "mnt": 0, "pid": 0, stepProc: unix.EACCES}, "power taken, as a permission": {"user": 0, stepProc: unix.EPERM}, "refused": {"user": unix.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			f := madeUp(t, 1000, files).namespaces(try, nil)
			mendable(t, f)
			if f.State != Missing || !strings.Contains(f.Detail, "AppArmor") || f.Or != "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" {
				t.Errorf("found %+v", f)
			}
			want := `printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile cloche "%s" flags=(unconfined) {\n  userns,\n}\n' ` + self() +
				" | sudo tee /etc/apparmor.d/cloche && sudo apparmor_parser -r /etc/apparmor.d/cloche"
			if f.Remedy != want {
				t.Errorf("mended by %s\nwant %s", f.Remedy, want)
			}
		})
	}
	if f := madeUp(t, 1000, files).namespaces(trial{"user": 0, "net": unix.ENOSPC}, nil); strings.Contains(f.Detail, "AppArmor") {
		t.Errorf("AppArmor is blamed for what it does not do: %+v", f)
	}
	if f := madeUp(t, 0, files).namespaces(trial{"user": unix.EPERM}, nil); strings.Contains(f.Detail, "AppArmor") {
		t.Errorf("AppArmor is blamed for what it does not do to root: %+v", f)
	}
}

func TestKubernetes(t *testing.T) {
	h := madeUp(t, 0, map[string]string{"run/.containerenv": ""})
	h.setenv(map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
	f := h.namespaces(trial{"user": unix.EPERM}, nil)
	mendable(t, f)
	if !strings.Contains(f.Detail, "by the Kubernetes pod") || !strings.HasPrefix(f.Remedy, "kubectl patch deployment DEPLOYMENT -p '{") || !strings.Contains(f.Remedy, `"procMount":"Unmasked"`) {
		t.Errorf("found %+v", f)
	}
}

func TestCovered(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "1 0 0:1 / /proc rw - proc proc rw\n": "",
		"1 0 0:1 / /proc/sys/fs/binfmt_misc rw - autofs x rw\n2 0 0:1 / /proc/fs/nfsd rw - nfsd x rw\n":       "",
		"1 0 0:1 / /proc/sys/fs/binfmt_misc rw - autofs x rw\n2 0 0:1 /acpi /proc/acpi ro - tmpfs tmpfs ro\n": "/proc/acpi",
		"1 0 0:1 / /process rw - ext4 x rw\nshort\n":                                                          "",
	} {
		if got := madeUp(t, 0, map[string]string{"proc/self/mountinfo": text}).covered(); got != want {
			t.Errorf("covered of %q = %q, want %q", text, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	const one = "newuidmap and /etc/subuid are not used"
	says(t, madeUp(t, 0, nil).ids(), OK, "which no user of this host has", "")
	says(t, madeUp(t, 1000, nil).ids(), OK, one, "")
	says(t, madeUp(t, 0, map[string]string{"proc/self/uid_map": "0 1000 1\n"}).ids(), OK, one, "")
}

func TestOverlay(t *testing.T) {
	const cost = "keeping files from call to call will"
	for _, test := range []struct {
		name           string
		uid            int
		try            trial
		state          State
		detail, remedy string
	}{
		{"root", 0, works(), OK, "one can be mounted by root, on the file system of the data directory too", ""},
		{"user", 1000, works(), OK, "one can be mounted in a user namespace, on the file system", ""},
		{"no data directory", 1000, trial{stepOverlay: 0}, OK, "one can be mounted in a user namespace", ""},
		{"not tried", 1000, trial{"user": unix.EPERM}, Limited, cost, self() + " doctor"},
		{"no module", 1000, trial{stepOverlay: unix.ENODEV}, Limited, cost, "sudo modprobe overlay"},
		{"no module, root", 0, trial{stepOverlay: unix.ENODEV, stepData: unix.ENODEV}, Limited, cost, "modprobe overlay"},
		{"refused", 1000, trial{stepOverlay: unix.EPERM}, Limited, "none can be mounted in a user namespace (operation not permitted)", ""},
		{"not on disk", 1000, trial{stepOverlay: 0, stepData: unix.EINVAL}, Limited, "but not on the file system of the data directory (invalid argument)", "cloche --data-dir DIR doctor"},
	} {
		t.Run(test.name, func(t *testing.T) {
			says(t, madeUp(t, test.uid, nil).overlay(test.try), test.state, test.detail, test.remedy)
		})
	}
}

// TestTrialOfErrors: what is no answer of the kernel's is none of success either.
func TestTrialOfErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		want syscall.Errno
	}{{nil, 0}, {unix.EPERM, unix.EPERM}, {&os.PathError{Err: unix.EROFS}, unix.EROFS}, {errors.New("broken"), unix.EIO}} {
		if got := code(test.err); got != test.want {
			t.Errorf("code(%v) = %v, want %v", test.err, got, test.want)
		}
	}
}
