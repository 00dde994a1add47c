package seccomp

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// arches are those whose programs are tested, whichever this machine is.
var arches = []string{"amd64", "arm64"}

// A call is what the kernel shows to a filter.
type call struct {
	arch, number uint32
	args         [6]uint64
}

// A machine runs a program as the kernel would.
type machine struct{ vm *bpf.VM }

func newMachine(t testing.TB, goarch string) machine {
	t.Helper()
	code, err := compile(goarch)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatalf("NewVM of the program for %s: %v", goarch, err)
	}
	return machine{vm}
}

func (m machine) run(t testing.TB, c call) uint32 {
	t.Helper()
	// The machine reads words as the network writes them, the kernel natively.
	data := binary.BigEndian.AppendUint32(nil, c.number)
	data = binary.BigEndian.AppendUint32(data, c.arch)
	data = append(data, make([]byte, 8)...)
	for _, a := range c.args {
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	v, err := m.vm.Run(data)
	if err != nil {
		t.Fatalf("run the program on %+v: %v", c, err)
	}
	return uint32(v)
}

// want reads the lists, without any of the program's means.
func want(goarch string, c call) uint32 {
	table := tables[goarch]
	name, known := table.SyscallNumbers[int(c.number)]
	switch {
	case c.arch != uint32(table.ID):
		return kill.Val
	case c.number > 467, slices.Contains(strings.Fields(absent), name):
		return nosys.Val
	case !known:
		return refuse.Val
	}
	for _, g := range groups {
		if slices.Contains(strings.Fields(g.calls), name) && (g.only == "" || g.only == goarch) {
			return allow.Val
		}
	}
	holds := func(w way) bool {
		return !slices.ContainsFunc(w, func(t test) bool { return c.args[t.arg]&t.mask != t.value })
	}
	for _, r := range rules {
		switch {
		case r.call != name:
		case slices.ContainsFunc(r.refuse, holds):
			return refuse.Val
		case slices.ContainsFunc(r.pretend, holds):
			return done.Val
		case slices.ContainsFunc(r.ways, holds):
			return allow.Val
		}
	}
	return refuse.Val
}

// numbers are all that can be of interest: known, newer, x32, negative.
func numbers() []uint32 {
	list := []uint32{999, 1<<30 - 1, 1 << 30, 1<<30 + 1, 1<<30 + 520, 1 << 31, 1<<32 - 1}
	for n := range uint32(600) {
		list = append(list, n)
	}
	return list
}

// arguments are those of the rules, calls' numbers, and all these with a half
// that the kernel drops.
func arguments() []uint64 {
	list := []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<64 - 1}
	for _, r := range rules {
		for _, w := range slices.Concat(r.ways, r.pretend, r.refuse) {
			for _, t := range w {
				list = append(list, t.value, t.mask, t.value^1, t.mask|1<<40)
			}
		}
	}
	for n := range uint64(470) {
		list = append(list, n, n<<32, n<<32|1, n<<32|unix.AF_VSOCK)
	}
	return list
}

func TestProgramDecidesAsListed(t *testing.T) {
	for _, goarch := range arches {
		t.Run(goarch, func(t *testing.T) {
			m, values, r := newMachine(t, goarch), arguments(), rand.New(rand.NewPCG(1, 2))
			ruled := map[uint32]bool{}
			for _, r := range rules {
				ruled[uint32(tables[goarch].SyscallNames[r.call])] = true
			}
			for _, n := range numbers() {
				tries := values
				if !ruled[n] {
					tries = values[:5]
				}
				c := call{arch: uint32(tables[goarch].ID), number: n}
				for _, v := range tries {
					for i := range c.args { // zero, the value, or anything listed
						c.args[i] = [...]uint64{0, v, values[r.IntN(len(values))]}[r.IntN(3)]
					}
					if got := m.run(t, c); got != want(goarch, c) {
						t.Fatalf("program(%+v) = %#x, want %#x", c, got, want(goarch, c))
					}
				}
			}
		})
	}
}

func FuzzProgram(f *testing.F) {
	f.Add(false, uint32(unix.AUDIT_ARCH_X86_64), uint32(41), uint64(316<<32|unix.AF_VSOCK), uint64(1), uint64(0), uint64(0), uint64(0))
	f.Add(false, uint32(unix.AUDIT_ARCH_I386), uint32(1), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(true, uint32(unix.AUDIT_ARCH_AARCH64), uint32(220), uint64(unix.CLONE_NEWUSER|1<<40), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(false, uint32(unix.AUDIT_ARCH_X86_64), uint32(9), uint64(0), uint64(4096), uint64(0), uint64(unix.MAP_HUGETLB), uint64(0))
	machines := map[string]machine{"amd64": newMachine(f, "amd64"), "arm64": newMachine(f, "arm64")}
	f.Fuzz(func(t *testing.T, arm bool, arch, number uint32, a0, a1, a2, a3, a4 uint64) {
		goarch := "amd64"
		if arm {
			goarch = "arm64"
		}
		c := call{arch: arch, number: number, args: [6]uint64{a0, a1, a2, a3, a4, 0}}
		if got := machines[goarch].run(t, c); got != want(goarch, c) {
			t.Errorf("program(%+v) for %s = %#x, want %#x", c, goarch, got, want(goarch, c))
		}
	})
}

// never are calls that no argument makes harmless.
const never = `
	unshare setns mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick open_tree open_tree_attr
	move_mount mount_setattr statmount listmount quotactl quotactl_fd swapon swapoff
	add_key request_key keyctl userfaultfd bpf perf_event_open ptrace process_vm_readv process_vm_writev
	process_madvise pidfd_getfd kcmp open_by_handle_at name_to_handle_at fanotify_init fanotify_mark
	init_module finit_module delete_module kexec_load kexec_file_load reboot syslog acct
	seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret mlockall
	remap_file_pages vmsplice adjtimex clock_adjtime clock_settime settimeofday mq_open
	sethostname setdomainname vhangup lookup_dcookie mbind set_mempolicy get_mempolicy migrate_pages move_pages
	modify_ldt iopl ioperm uselib ustat sysfs uretprobe create_module query_module
	clone3 io_uring_setup io_uring_enter io_uring_register`

func TestProgramNeverAllows(t *testing.T) {
	for _, goarch := range arches {
		m, r := newMachine(t, goarch), rand.New(rand.NewPCG(3, 4))
		for name := range strings.FieldsSeq(never) {
			n, ok := tables[goarch].SyscallNames[name]
			if !ok && goarch == "amd64" {
				t.Fatalf("amd64 has no system call %s", name)
			}
			for range 100 {
				c := call{arch: uint32(tables[goarch].ID), number: uint32(n)}
				for i := range c.args {
					c.args[i] = r.Uint64() >> r.UintN(64)
				}
				if got := m.run(t, c); ok && got != refuse.Val && got != nosys.Val {
					t.Fatalf("%s: %s%v = %#x, want a refusal", goarch, name, c.args, got)
				}
			}
		}
	}
}

func TestListsAreKnown(t *testing.T) {
	for _, goarch := range arches {
		if _, err := compile(goarch); err != nil {
			t.Errorf("compile(%q): %v", goarch, err)
		}
	}
	for _, goarch := range []string{"386", "riscv64", ""} {
		if _, err := assemble(goarch); err == nil {
			t.Errorf("assemble(%q) has no error, want that there is no list", goarch)
		}
	}
}

func TestSetFindsMistakes(t *testing.T) {
	for _, tt := range []struct{ name, only, calls, want string }{
		{name: "unknown", calls: "read reed", want: "has no system call reed"},
		{name: "twice", calls: "read write read", want: "read is listed twice"},
		{name: "another's", only: "arm64", calls: "reed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &decisions{goarch: "amd64", numbers: tables["amd64"].SyscallNames, code: make([][]bpf.Instruction, 468)}
			err := d.set(tt.only, tt.calls, allow)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("set(%q, %q) = %v, want %q", tt.only, tt.calls, err, tt.want)
			}
		})
	}
}

func TestProgramIsCallersOwn(t *testing.T) {
	a, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	if len(a) == 0 || len(a)%8 != 0 || len(a)/8 >= 4096 {
		t.Errorf("Program() has %d bytes, want whole instructions, fewer than 4096", len(a))
	}
	clear(a)
	b, err := Program()
	if err != nil || slices.Equal(a, b) {
		t.Errorf("Program() after changing what it returned = %v, want it unchanged", err)
	}
	t.Logf("%d instructions", len(b)/8)
}

func BenchmarkAssemble(b *testing.B) {
	for b.Loop() {
		if _, err := assemble("amd64"); err != nil {
			b.Fatal(err)
		}
	}
}
