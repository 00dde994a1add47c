package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
	"cloche.dev/cloche/runtime/shim"
	"cloche.dev/cloche/tools"
)

// packages is a fake whose image has n packages.
func packages(n int) *sandboxtest.Fake {
	return &sandboxtest.Fake{Call: func(_ *sandboxtest.FakeBox, _ string, stdout, _ io.Writer, _ <-chan struct{}) int {
		list := [][2]string{}
		for i := range n {
			list = append(list, [2]string{fmt.Sprintf("p%03d", i), "1.0"})
		}
		if err := json.NewEncoder(stdout).Encode(map[string]any{"python": "3.11.2", "packages": list}); err != nil {
			return 1 << 8
		}
		return 0
	}}
}

// status calls sandbox_status in a new conversation of b.
func (b *bench) status(t *testing.T, o StatusOptions) (tools.Result, string, error) {
	t.Helper()
	o.Version, o.Pool, o.Conversations = "0.1", b.pool, b.set
	if o.Inventory == nil {
		o.Inventory = inventory.New(b.fake)
	}
	if o.Limited == nil {
		all := shim.Setup{Limits: cgroup.Limits{Memory: true, CPU: true, PIDs: true}}
		o.Limited = func(context.Context) (shim.Setup, error) { return all, nil }
	}
	if o.PolicyError == nil {
		o.PolicyError = func() error { return nil }
	}
	c := b.set.New("local")
	r, err := Status(o).Run(t.Context(), &tools.Call{
		Tool: "sandbox_status", Arguments: json.RawMessage("{}"), Policy: &b.policy, Principal: "local", Conversation: c, Number: c.Begin(),
	})
	if err == nil && c.Tell() {
		t.Error("the answer carries the conversation's id, and the next one tells it again")
	}
	return r, c.ID, err
}

func TestStatus(t *testing.T) {
	b := newBench(t, packages(2))
	r, id, err := b.status(t, StatusOptions{PolicyError: func() error { return errors.New("line 3: /home/x") }})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Structured.(status)
	used := s.Conversations[0].Used
	want := "cloche 0.1 · Python 3.11.2 · image host · network none · conversation " + id + "\n" +
		"workspace: nothing is kept from call to call\n" +
		"time: 60 s a call, at most 3600 s with timeout_seconds\n" +
		"memory 1 GB, processors 1, processes 1,024; enforced by the kernel, for all processes of the sandbox together\n" +
		"/work 256 MB, /tmp 512 MB, /dev/shm 64 MB; they count as memory\n" +
		"code up to 4 MB; of stdout and of stderr 12 kB each are shown\n" +
		"notice: the configuration file has mistakes, so an older policy holds; the administrator sees them with cloche policy check\n" +
		"installed packages: p000 1.0, p001 1.0\n" +
		"recent conversations:\n" + id + ", last used " + used + ", 1 call\n"
	if diff := cmp.Diff(want, r.Content[0].Text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	raw, err := json.Marshal(r.Structured)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON := `{"conversation":"` + id + `","version":"0.1","python":"3.11.2","image":"host","network":"none",` +
		`"workspace":"nothing is kept from call to call",` +
		`"limits":{"timeout_seconds":60,"max_timeout_seconds":3600,"code_bytes":4000000,"output_bytes":12000,"memory_bytes":1000000000,` +
		`"cpus":1,"pids":1024,"work_bytes":256000000,"tmp_bytes":512000000,"shm_bytes":64000000,` +
		`"enforced":"by the kernel, for all processes of the sandbox together"},` +
		`"packages":[{"name":"p000","version":"1.0"},{"name":"p001","version":"1.0"}],` +
		`"conversations":[{"id":"` + id + `","used":"` + used + `","calls":1}],` +
		`"notices":["the configuration file has mistakes, so an older policy holds; the administrator sees them with cloche policy check"]}`
	if diff := cmp.Diff(wantJSON, string(raw)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

// TestStatusBounds tries as many packages and conversations as are listed, and
// one more.
func TestStatusBounds(t *testing.T) {
	for _, tt := range []struct{ packages, listed, more, conversations, recent int }{
		{0, 0, 0, 1, 1},
		{maxListedPackages, maxListedPackages, 0, maxListedConversations, maxListedConversations},
		{maxListedPackages + 1, maxListedPackages, 1, maxListedConversations + 1, maxListedConversations},
	} {
		b := newBench(t, packages(tt.packages))
		for range tt.conversations - 1 {
			b.set.New("local")
		}
		b.set.New("other")
		r, _, err := b.status(t, StatusOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s := r.Structured.(status)
		if len(s.Packages) != tt.listed || s.More != tt.more || s.Packages == nil {
			t.Errorf("%d packages: %d listed, %d more, want %d and %d", tt.packages, len(s.Packages), s.More, tt.listed, tt.more)
		}
		if got := strings.Contains(r.Content[0].Text, ", and 1 more"); got != (tt.more == 1) {
			t.Errorf("%d packages: the text says that there are more: %v", tt.packages, got)
		}
		if n := len(s.Conversations); n != tt.recent {
			t.Errorf("%d of %d conversations are listed, want %d", n, tt.conversations, tt.recent)
		}
	}
}

func TestStatusFaults(t *testing.T) {
	broken := errors.New("exec /home/x: no such file")
	fake := packages(0)
	fake.StartErr = func(context.Context, sandbox.Spec) error { return fault.Wrap(fault.Unavailable, broken, "no shim") }
	b := newBench(t, fake)
	_, _, err := b.status(t, StatusOptions{})
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind() != fault.Unavailable || !errors.Is(err, broken) || strings.Contains(f.Text(), "home") {
		t.Errorf("status without a sandbox = %v, want a fault of kind unavailable, the cause for the log alone", err)
	}
	b = newBench(t, packages(0))
	_, _, err = b.status(t, StatusOptions{Limited: func(context.Context) (shim.Setup, error) { return shim.Setup{}, broken }})
	if fault.KindOf(err) != fault.Internal || !errors.Is(err, broken) {
		t.Errorf("status without a setup = %v, want a fault of kind internal", err)
	}
}

func TestEnforced(t *testing.T) {
	const without = "as far as the server can without control groups: "
	for limits, want := range map[cgroup.Limits]string{
		{Memory: true, CPU: true, PIDs: true}: "by the kernel, for all processes of the sandbox together",
		{Memory: true, PIDs: true}:            without + "processors are not limited, but code runs at low priority",
		{}: without + "memory is held by a watcher, which ends a call that passes its limit (by some 100 MB for a moment); " +
			"processors are not limited, but code runs at low priority",
	} {
		if got := enforced(shim.Setup{Limits: limits}); got != want {
			t.Errorf("enforced(%+v) = %q, want %q", limits, got, want)
		}
	}
}

func TestLimitsOf(t *testing.T) {
	c := config.Default()
	c.Calls = config.Calls{Timeout: config.Duration(1.5e9), MaxTimeout: config.Duration(2e9), MaxCode: 3, Output: 4}
	c.Sandbox = config.Sandbox{Memory: 5, CPUs: 0.5, PIDs: 6, Work: 7, Tmp: 8, Shm: 9}
	want := limits{
		TimeoutSeconds: 1.5, MaxTimeoutSeconds: 2, CodeBytes: 3, OutputBytes: 4,
		MemoryBytes: 5, CPUs: 0.5, PIDs: 6, WorkBytes: 7, TmpBytes: 8, ShmBytes: 9,
	}
	if diff := cmp.Diff(want, limitsOf(&c)); diff != "" {
		t.Errorf("limitsOf() (-want +got):\n%s", diff)
	}
}

// TestStatusOfTrouble: where no sandbox can be kept ready the agent learns why, but
// no more than it may know.
func TestStatusOfTrouble(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		known bool // what the image has was found out before
		want  string
	}{
		{"fault", fault.Wrap(fault.Unavailable, errors.New("/home/x"), "no namespaces"), true, "sandboxes cannot be kept ready: no namespaces; cloche doctor, on the server, says more"},
		{"other", errors.New("exec /home/x"), true, "sandboxes cannot be kept ready: the server's log has the cause; cloche doctor, on the server, says more"},
		{"from the start", fault.New(fault.Unavailable, "no namespaces"), false, "no sandbox can be started to look into: no namespaces; cloche doctor, on the server, says more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake := packages(1)
			var fails atomic.Bool
			fails.Store(!tt.known)
			fake.StartErr = func(context.Context, sandbox.Spec) error {
				if fails.Load() {
					return tt.err
				}
				return nil
			}
			b := newBench(t, fake)
			o := StatusOptions{Inventory: inventory.New(b.fake)}
			if tt.known {
				r, _, err := b.status(t, o)
				if err != nil || len(r.Structured.(status).Notices) > 0 {
					t.Fatalf("status while all is well = %v, %v", r.Structured, err)
				}
			}
			fails.Store(true)
			b.pool.Keep(t.Context(), Kind(&b.policy), 1)
			end := time.After(30 * time.Second)
			for b.pool.Trouble() == nil {
				select {
				case <-time.After(time.Millisecond):
				case <-end:
					t.Fatal("the pool is in no trouble")
				}
			}
			r, _, err := b.status(t, o)
			if !tt.known {
				f, ok := errors.AsType[*fault.Error](err)
				if !ok || f.Text() != tt.want {
					t.Errorf("status = %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := r.Structured.(status).Notices; len(n) != 1 || n[0] != tt.want || !strings.Contains(r.Content[0].Text, "notice: "+tt.want+"\n") {
				t.Errorf("notices = %q, want %q", n, tt.want)
			}
		})
	}
}
