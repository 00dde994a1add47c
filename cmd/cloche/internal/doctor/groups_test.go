package doctor

import (
	"errors"
	"maps"
	"runtime"
	"strings"
	"testing"

	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/need"
)

// What the mountinfo of other hosts says.
const (
	second   = "30 1 0:30 / /sys/fs/cgroup rw,nosuid,relatime - cgroup2 cgroup2 rw\n"
	readOnly = "30 1 0:30 / /sys/fs/cgroup ro,nosuid,relatime - cgroup2 cgroup2 rw\n"
	first    = "23 22 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)

func TestGroups(t *testing.T) {
	const mountinfo, have = "proc/self/mountinfo", "sys/fs/cgroup/cgroup.controllers"
	const systemd = "run/systemd/system/x"
	const on = "echo '+memory +cpu +pids' > /sys/fs/cgroup/cgroup.subtree_control"
	v2 := map[string]string{mountinfo: second, have: "cpuset cpu io memory pids\n", "proc/cgroups": absent}
	with := func(files ...string) map[string]string {
		all := maps.Clone(v2)
		for i := 0; i < len(files); i += 2 {
			all[files[i]] = files[i+1]
		}
		return all
	}
	newKernel := "apt-get install linux-image-" + runtime.GOARCH + " && reboot"
	every := cgroup.Limits{Memory: true, CPU: true, PIDs: true}
	noCPU := cgroup.Limits{Memory: true, PIDs: true}
	for _, test := range []struct {
		name           string
		uid            int
		files          map[string]string
		limits         cgroup.Limits
		path           string
		state          State
		detail, remedy string
	}{
		{"1 and 2, root", 0, nil, every, "/c", OK, "version 1 with an empty 2 beside it; memory, cpu and pids can be used", ""},
		{"1, root", 0, map[string]string{mountinfo: first}, every, "/c", OK, "version 1; memory", ""},
		{"2, root", 0, v2, every, "/c", OK, "version 2; memory", ""},
		{"2, delegated", 1000, v2, every, "/c", OK, "version 2; memory", ""},
		{"none mounted", 1000, map[string]string{mountinfo: "1 0 0:1 / /proc rw - proc proc rw\n"}, every, "", Limited, "none are mounted", "sudo mkdir -p /sys/fs/cgroup && sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup"},
		{"1, user", 1000, nil, cgroup.Limits{}, "", Limited, "none of memory, cpu and pids can be used by this user: version 1 is for root alone", "sudo " + self() + " stdio"},
		{
			"1, root, some not mounted", 0,
			map[string]string{mountinfo: first},
			cgroup.Limits{Memory: true},
			"/c", Limited,
			"cpu and pids cannot be used by this user, the others of memory, cpu and pids can",
			"mkdir -p /sys/fs/cgroup/cpu && mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu && mkdir -p /sys/fs/cgroup/pids && mount -t cgroup -o pids cgroup /sys/fs/cgroup/pids",
		},
		{"1, root, read-only", 0, nil, cgroup.Limits{}, "", Limited, "they are mounted, but no group may be made", "mount -o remount,rw /sys/fs/cgroup/memory"},
		{"2, user, not delegated", 1000, with(systemd, ""), cgroup.Limits{}, "", Limited, "no group is delegated to it", "systemd-run --user --scope -p Delegate=yes " + self() + " stdio"},
		{"2, user, without systemd", 1000, v2, cgroup.Limits{}, "", Limited, "no group is delegated to it", "sudo " + self() + " stdio"},
		{
			"2, user, not all delegated", 1000, with(systemd, ""), noCPU, "/user.slice/c", Limited, "cpu cannot be used by this user, the others of memory, cpu and pids can: they are not delegated",
			`printf '[Service]\nDelegate=cpu memory pids\n' | sudo install -D -m 644 /dev/stdin /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload`,
		},
		{"2, root, not divided", 0, v2, noCPU, "/c", Limited, "cpu cannot", on},
		{"2, root, in a container", 0, with("sys/fs/cgroup/cgroup.type", "domain\n"), cgroup.Limits{}, "/c", Limited, "none of", "mkdir -p /sys/fs/cgroup/init && xargs -rn1 < /sys/fs/cgroup/cgroup.procs > /sys/fs/cgroup/init/cgroup.procs; " + on},
		{"2, root, read-only", 0, with(mountinfo, readOnly), cgroup.Limits{}, "", Limited, "none of", "mount -o remount,rw /sys/fs/cgroup"},
		{"not in the kernel", 0, with(have, "cpuset memory pids\n"), noCPU, "/c", Limited, "cpu is not in this kernel, or was switched off", newKernel},
		{
			"switched off", 0, with(have, "cpu pids\n", "proc/cmdline", "root=/dev/sda cgroup_disable=memory,hugetlb quiet\n"),
			cgroup.Limits{CPU: true, PIDs: true},
			"/c", Limited, "memory is not in this kernel, or was switched off",
			"sed -i 's/ *cgroup_disable=memory,hugetlb//' /etc/default/grub && update-grub && reboot",
		},
		{"another switched off", 0, with(have, "cpu pids\n", "proc/cmdline", "cgroup_disable=hugetlb\n"), cgroup.Limits{CPU: true, PIDs: true}, "/c", Limited, "memory is not", newKernel},
		{
			"Raspberry Pi", 1000, with(have, "cpu pids\n", "boot/firmware/cmdline.txt", "root=x\n"),
			cgroup.Limits{CPU: true, PIDs: true},
			"/c", Limited, "memory is not",
			"sudo sed -i 's/$/ cgroup_enable=memory/' /boot/firmware/cmdline.txt && sudo reboot",
		},
		{"1, switched off", 0, map[string]string{"proc/cgroups": "memory\t4\t4\t0\ncpu\t1\t4\t1\npids\t8\t4\t1\n"}, cgroup.Limits{CPU: true, PIDs: true}, "/c", Limited, "memory is not in this kernel", newKernel},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := madeUp(t, test.uid, test.files)
			h.group = func(string) (cgroup.Limits, string, error) { return test.limits, test.path, nil }
			says(t, h.groups("i1"), test.state, test.detail, test.remedy)
		})
	}
}

func TestGroupsNotTried(t *testing.T) {
	h := madeUp(t, 1000, nil)
	h.group = func(string) (cgroup.Limits, string, error) { return cgroup.Limits{}, "", errors.New("broken") }
	says(t, h.groups("i1"), Limited, "none can be made: broken", "")
	h.group = func(string) (cgroup.Limits, string, error) {
		t.Error("a group was made without a name")
		return cgroup.Limits{}, "", nil
	}
	says(t, h.groups(""), Limited, "not tried", self()+" doctor")
}

// TestMakeGroup makes a real one, and leaves nothing.
func TestMakeGroup(t *testing.T) {
	need.Cgroup(t)
	const name = "doctor-test"
	limits, path, err := makeGroup(name)
	if err != nil || !limits.All() || !strings.HasSuffix(path, "/"+name) {
		t.Errorf("makeGroup = %+v, %q, %v", limits, path, err)
	}
	if err := cgroup.Find(name).Remove(0); err != nil {
		t.Errorf("what is left cannot be removed: %v", err)
	}
}
