//go:build loosened

package container

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/capabilities"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/rootfs"
)

// walls are the names of those that are off, with commas between. The linker
// sets it, for the life of the program.
var walls string

// off says whether a wall is.
func off(wall string) bool { return slices.Contains(strings.Split(walls, ","), wall) }

// loosened says whether any wall is off.
func loosened() bool { return walls != "" }

// loosenConfig takes walls off that libcontainer puts up.
func loosenConfig(c *configs.Config) {
	without := func(kind configs.NamespaceType) {
		c.Namespaces = slices.DeleteFunc(c.Namespaces, func(n configs.Namespace) bool { return n.Type == kind })
	}
	if off("capabilities") {
		all := capabilities.KnownCapabilities()
		c.Capabilities = &configs.Capabilities{Bounding: all, Effective: all, Inheritable: all, Permitted: all, Ambient: all}
	}
	if off("step") {
		c.NoNewPrivileges = false
	}
	if off("proc") {
		c.MaskPaths, c.ReadonlyPaths = nil, nil
	}
	if off("pid") {
		without(configs.NEWPID)
	}
	if off("net") {
		without(configs.NEWNET)
		c.Networks = nil
	}
	if off("user") {
		without(configs.NEWUSER)
		c.UIDMappings, c.GIDMappings, c.Sysctl = nil, nil, nil
	}
	if off("root") {
		c.Readonlyfs = false
		for _, m := range c.Mounts {
			m.Flags &^= unix.MS_RDONLY
		}
	}
	if off("sys") {
		c.Mounts = append(c.Mounts, &configs.Mount{Source: "/sys", Destination: "/sys", Device: "bind", Flags: unix.MS_BIND | unix.MS_REC})
	}
	if off("limits") {
		c.Cgroups.Resources = &cgroups.Resources{}
		c.Sysctl = nil
	}
}

// loosenProcess takes walls off that are the first process's own.
func loosenProcess(p *libcontainer.Process) {
	if off("step") {
		i := slices.Index(p.Args, rootfs.Python)
		p.Args = p.Args[i:]
	}
	if off("user") {
		p.UID, p.GID = 0, 0
	}
	if off("environment") {
		p.Env = append(p.Env, "CLOCHE_TOKEN=of-the-server")
	}
	if off("descriptors") {
		top, err := os.Open("/")
		if err != nil {
			panic(err)
		}
		p.ExtraFiles = append(p.ExtraFiles, top)
	}
	if off("limits") {
		p.Rlimits = nil
	}
}

// loosenFilter returns a filter that allows everything.
func loosenFilter(filter []byte) []byte {
	if !off("filter") {
		return filter
	}
	allow := binary.NativeEndian.AppendUint16(nil, unix.BPF_RET|unix.BPF_K)
	return binary.NativeEndian.AppendUint32(append(allow, 0, 0), unix.SECCOMP_RET_ALLOW)
}

// loosenParent returns the parent's source with walls off that the parent puts
// up.
func loosenParent(source string) string {
	for _, l := range []struct{ wall, text, instead string }{
		{"dumpable", "            set_dumpable(0)\n            task", "            task"},
		{"descriptors", "posix.closerange(3, 1 << 30)", "pass"},
		{"descriptors", `posix.chdir("/work")`, "posix.chdir(4)"}, // what loosenProcess adds
		{"killing", "                kill_all()\n\n    def reap", "                return 0\n\n    def reap"},
		{"killing", "posix.kill(pid, _signal.SIGINT)", "pass"},
		{"killing", "        self.clear()\n", ""},
		{"status", `"done %d" % status`, `"done %d" % (status + 1)`},
	} {
		if !off(l.wall) {
			continue
		}
		if strings.Count(source, l.text) != 1 {
			panic(fmt.Sprintf("wall %s: %q is not once in the parent", l.wall, l.text))
		}
		source = strings.Replace(source, l.text, l.instead, 1)
	}
	return source
}

// loosenPlace returns a place, and the attributes of its mount, with walls off.
func loosenPlace(p place, attributes int) (place, int) {
	if off("places") {
		p.bytes = 1 << 30
		attributes &^= unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	}
	return p, attributes
}

// loosenMeminfo returns a file that tells of a host which is short of memory, if
// it is to be taken for one.
func loosenMeminfo(name string) string {
	if !off("plenty") {
		return name
	}
	name = "/run/meminfo" // the shim's own
	if err := os.WriteFile(name, []byte("MemTotal: 1000000 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n"), 0o600); err != nil {
		panic(err)
	}
	return name
}
