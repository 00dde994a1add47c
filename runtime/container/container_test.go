package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
)

// What sandboxes promise is tested where they are made for real, by package
// shim; here is what is decided before.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTail(t *testing.T) {
	for _, tt := range []struct{ name, wrote, want string }{
		{"nothing", "", ""},
		{"short", "step: seccomp: no", "step: seccomp: no"},
		{"exactly as much as is kept", strings.Repeat("x", tailBytes), strings.Repeat("x", tailBytes)},
		{"one more", "a" + strings.Repeat("x", tailBytes), strings.Repeat("x", tailBytes)},
		{"much more", strings.Repeat("y", 50*tailBytes) + "end", strings.Repeat("y", tailBytes-3) + "end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			tail := newTail(r)
			if _, err := w.WriteString(tt.wrote); err != nil {
				t.Fatal(err)
			}
			w.Close()
			<-tail.done
			if got := tail.String(); got != tt.want {
				t.Errorf("kept %d bytes that end in %.20q, want %d", len(got), got, len(tt.want))
			}
			tail.close()
		})
	}
}

// TestTailCloses: also while the pipe has writers.
func TestTailCloses(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	newTail(r).close()
}

func TestFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.events")
	if err := os.WriteFile(file, []byte("low 0\noom 3\noom_kill 2\noom_group_kill 7\nstrange\nmax x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"oom_kill": 2, "oom": 3, "strange": 0, "max": 0, "absent": 0} {
		if got := field(file, name); got != want {
			t.Errorf("field %s = %d, want %d", name, got, want)
		}
	}
	if got := field(file+".gone", "oom_kill"); got != 0 {
		t.Errorf("field of a file that is not there = %d, want 0", got)
	}
	for text, want := range map[string]uint64{"4096\n": 4096, "max\n": 0, "": 0, "18446744073709551615": 1<<64 - 1} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := number(file); got != want {
			t.Errorf("number in %q = %d, want %d", text, got, want)
		}
	}
}

// TestIDs: no two sandboxes have an id in common, none has the shim's root, and
// what was given back is given out again.
func TestIDs(t *testing.T) {
	const slots = 3
	all := newIDs(1 + slots*sandbox.IDs)
	owner := map[int64]int{0: -1} // the shim's root
	var releases []func()
	for n := range slots {
		own, release, err := all.take()
		if err != nil {
			t.Fatalf("sandbox %d: %v", n, err)
		}
		releases = append(releases, release)
		m := own.inside()
		if len(m) != 1 || m[0].ContainerID != 0 || m[0].HostID+agent != int64(own.agent()) || m[0].Size <= agent {
			t.Fatalf("sandbox %d has %+v, and its agent is %d", n, m, own.agent())
		}
		for id := m[0].HostID; id < m[0].HostID+m[0].Size; id++ {
			if other, ok := owner[id]; ok || id > slots*sandbox.IDs {
				t.Fatalf("sandbox %d has id %d, which is that of %d or none", n, id, other)
			}
			owner[id] = n
		}
	}
	if _, _, err := all.take(); fault.KindOf(err) != fault.Busy {
		t.Errorf("one sandbox more than there are ids for: %v, want busy", err)
	}
	releases[1]()
	if own, _, err := all.take(); err != nil || own.first != 1+sandbox.IDs {
		t.Errorf("after one was given back: %+v, %v, want its ids", own, err)
	}
}

func TestSingleID(t *testing.T) {
	for _, total := range []int64{1, 1000, sandbox.IDs} {
		all := newIDs(total)
		for range 2 {
			own, release, err := all.take()
			if err != nil || own.agent() != 0 || own.inside()[0].Size != 1 {
				t.Errorf("of %d ids: %+v, %v, want the one", total, own.inside(), err)
			}
			release()
		}
	}
}

// TestEnforceable: nothing asked for is the smallest, never none.
func TestEnforceable(t *testing.T) {
	smallest := sandbox.Limits{MemoryBytes: 32 << 20, CPUs: 0.01, PIDs: 8, WorkBytes: 64 << 10, TmpBytes: 64 << 10, ShmBytes: 64 << 10}
	usual := sandbox.Limits{MemoryBytes: 1e9, CPUs: 0.5, PIDs: 1024, WorkBytes: 1e6, TmpBytes: 2e6, ShmBytes: 3e6}
	for _, tt := range []struct {
		name      string
		l, result sandbox.Limits
	}{
		{"none", sandbox.Limits{}, smallest},
		{"negative", sandbox.Limits{MemoryBytes: -1, CPUs: -1, PIDs: -1, WorkBytes: -1, TmpBytes: -1, ShmBytes: -1}, smallest},
		{"usual", usual, usual},
		{"processors without end", sandbox.Limits{CPUs: 1e300}, sandbox.Limits{
			MemoryBytes: 32 << 20, CPUs: 1024, PIDs: 8, WorkBytes: 64 << 10, TmpBytes: 64 << 10, ShmBytes: 64 << 10,
		}},
	} {
		if diff := cmp.Diff(tt.result, enforceable(tt.l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestConfig: what limits become, with and without control groups.
func TestConfig(t *testing.T) {
	limits := sandbox.Limits{MemoryBytes: 1e9, CPUs: 1.5, PIDs: 100, WorkBytes: 1 << 20, TmpBytes: 2 << 20, ShmBytes: 8 << 20}
	with := &Runner{cgroup: "/cloche/i", limits: cgroup.Limits{Memory: true, CPU: true, PIDs: true}, swapLimit: true, maxFiles: 4096}
	cg := with.cgroups("id", "/cloche/i/id", limits)
	if r := cg.Resources; cg.Path != "/cloche/i/id" || r.Memory != 1e9 || r.MemorySwap != 1e9 || r.CpuQuota != 150_000 || r.CpuPeriod != 100_000 || *r.PidsLimit != 100 {
		t.Errorf("control group = %+v, %+v", cg, cg.Resources)
	}
	without := &Runner{maxFiles: 1 << 20}
	if r := without.cgroups("id", "", limits).Resources; r.Memory != 0 || r.CpuQuota != 0 || r.PidsLimit != nil {
		t.Errorf("without a group: %+v, want no limit", r)
	}
	type pair struct{ Soft, Hard uint64 }
	rlimits := func(r *Runner, l sandbox.Limits) map[int]pair {
		all := map[int]pair{}
		for _, x := range r.rlimits(l) {
			all[x.Type] = pair{x.Soft, x.Hard}
		}
		return all
	}
	want := map[int]pair{
		unix.RLIMIT_CORE: {1, 1}, unix.RLIMIT_NOFILE: {1024, 4096}, unix.RLIMIT_NPROC: {100, 100}, unix.RLIMIT_MEMLOCK: {64 << 10, 64 << 10},
		unix.RLIMIT_MSGQUEUE: {0, 0}, unix.RLIMIT_SIGPENDING: {4096, 4096}, unix.RLIMIT_FSIZE: {8 << 20, 8 << 20},
		unix.RLIMIT_NICE: {0, 0}, unix.RLIMIT_RTPRIO: {0, 0},
	}
	if diff := cmp.Diff(want, rlimits(with, limits)); diff != "" {
		t.Errorf("rlimits beside a control group (-want +got):\n%s", diff)
	}
	want[unix.RLIMIT_NOFILE] = pair{1024, 65536}
	want[unix.RLIMIT_DATA] = pair{1e9 + 4<<30, 1e9 + 4<<30} // with what threads reserve
	if diff := cmp.Diff(want, rlimits(without, limits)); diff != "" {
		t.Errorf("rlimits without one (-want +got):\n%s", diff)
	}
}
