package code

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTools(t *testing.T) {
	toolstest.Check(t, Interpreter(nil))
	toolstest.Check(t, Status(StatusOptions{}))
}

func TestKind(t *testing.T) {
	c := config.Default()
	c.Sandbox = config.Sandbox{
		Image: "host", Memory: 7, CPUs: 0.5, PIDs: 3, Work: 4, Tmp: 5, Shm: 6,
		Preload: config.Preload{Modules: []string{"numpy"}}, Host: config.Host{Hide: []string{"local/x"}},
	}
	want := pool.Kind{
		Digest: c.SandboxDigest() + "-" + rootfs.HostState(),
		Spec: sandbox.Spec{
			Image: "host", Hide: []string{"local/x"},
			Limits: sandbox.Limits{MemoryBytes: 7, CPUs: 0.5, PIDs: 3, WorkBytes: 4, TmpBytes: 5, ShmBytes: 6},
		},
		Preload: []string{"numpy"},
	}
	if diff := cmp.Diff(want, Kind(&c)); diff != "" {
		t.Errorf("Kind() (-want +got):\n%s", diff)
	}
	other := c
	other.Calls.Timeout++
	if Kind(&other).Digest != want.Digest {
		t.Error("another time limit of calls is another kind of sandbox")
	}
	other.Sandbox.PIDs++
	if Kind(&other).Digest == want.Digest {
		t.Error("another limit of the sandbox is the same kind")
	}
}
