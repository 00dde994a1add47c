package code

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/shim"
	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/schema"
)

const statusDoc = `Tells what code runs in: versions, limits (time, memory, processors, processes, output), the network (none), installed Python packages with their versions, and your recent conversations. Changes nothing and never waits for running calls.`

type statusArgs struct {
	Conversation string `json:"conversation,omitempty" jsonschema:"id of a conversation, from an earlier result; leave out for the present one"`
}

// Bounds of what a status lists.
const (
	maxListedPackages      = 400
	maxListedConversations = 10
)

// StatusOptions are what sandbox_status asks.
type StatusOptions struct {
	Version       string
	Pool          *pool.Pool
	Conversations *conversation.Set
	Inventory     *inventory.Register
	// Limited says which limits the kernel enforces.
	Limited func(context.Context) (shim.Setup, error)
	// PolicyError says what is wrong with the configuration file, nil if nothing.
	PolicyError func() error
}

// Status returns the tool sandbox_status.
func Status(o StatusOptions) tools.Tool {
	return tools.Tool{
		Name: "sandbox_status", Title: "Limits, versions and packages", Doc: statusDoc,
		Schema:   schema.For[statusArgs](),
		ReadOnly: true, Destructive: false, Idempotent: true, OpenWorld: false,
		Run: o.run,
	}
}

// A status is the structured answer.
type status struct {
	Conversation  string               `json:"conversation"`
	Version       string               `json:"version"`
	Python        string               `json:"python"`
	Image         string               `json:"image"`
	Network       string               `json:"network"`
	Workspace     string               `json:"workspace"`
	Limits        limits               `json:"limits"`
	Loaded        []string             `json:"loaded,omitempty"`
	NotLoaded     map[string]string    `json:"not_loaded,omitempty"`
	Packages      []inventory.Package  `json:"packages"`
	More          int                  `json:"more_packages,omitempty"`
	Conversations []statusConversation `json:"conversations"`
	Notices       []string             `json:"notices,omitempty"`
}

type limits struct {
	TimeoutSeconds    float64 `json:"timeout_seconds"`
	MaxTimeoutSeconds float64 `json:"max_timeout_seconds"`
	CodeBytes         int64   `json:"code_bytes"`
	OutputBytes       int64   `json:"output_bytes"`
	MemoryBytes       int64   `json:"memory_bytes"`
	CPUs              float64 `json:"cpus"`
	PIDs              int64   `json:"pids"`
	WorkBytes         int64   `json:"work_bytes"`
	TmpBytes          int64   `json:"tmp_bytes"`
	ShmBytes          int64   `json:"shm_bytes"`
	Enforced          string  `json:"enforced"`
}

type statusConversation struct {
	ID    string `json:"id"`
	Used  string `json:"used"`
	Calls int    `json:"calls"`
}

func (o StatusOptions) run(ctx context.Context, call *tools.Call) (tools.Result, error) {
	kind := Kind(call.Policy)
	inv, err := o.Inventory.Of(ctx, kind)
	if err != nil {
		return tools.Result{}, o.fault(err)
	}
	setup, err := o.Limited(ctx)
	if err != nil {
		return tools.Result{}, o.fault(err)
	}
	s := status{
		Conversation: call.Conversation.ID, Version: o.Version, Python: inv.Python, Image: kind.Spec.Image,
		Network: "none", Workspace: notMounted, Limits: limitsOf(call.Policy), Packages: inv.Packages,
	}
	s.Limits.Enforced = enforced(setup)
	s.Loaded, s.NotLoaded = o.Pool.Modules()
	if call.Policy.Sandbox.Preload.Auto {
		// Then those that are not installed are not meant.
		maps.DeleteFunc(s.NotLoaded, func(_, why string) bool { return strings.HasPrefix(why, "ModuleNotFoundError(") })
	}
	if n := len(s.Packages); n > maxListedPackages {
		s.Packages, s.More = s.Packages[:maxListedPackages], n-maxListedPackages
	}
	for _, c := range o.Conversations.Recent(call.Principal, maxListedConversations) {
		s.Conversations = append(s.Conversations, statusConversation{c.ID, c.Used.UTC().Format(time.RFC3339), c.Calls})
	}
	if err := o.PolicyError(); err != nil {
		s.Notices = append(s.Notices, "the configuration file has mistakes, so an older policy holds; the administrator sees them with cloche policy check")
	}
	if err := o.Pool.Trouble(); err != nil {
		s.Notices = append(s.Notices, "sandboxes cannot be kept ready: "+reason(err)+"; cloche doctor, on the server, says more")
	}
	call.Conversation.Tell() // the answer carries the id
	result := tools.Text(s.text())
	result.Structured = s
	return result, nil
}

// fault keeps a fault's kind and says that nothing else is the matter; and why, if
// the pool knows that.
func (o StatusOptions) fault(err error) error {
	const text = "no sandbox can be started to look into"
	if trouble := o.Pool.Trouble(); trouble != nil {
		return fault.Wrap(fault.KindOf(err), err, text+": %s; cloche doctor, on the server, says more", reason(trouble))
	}
	return fault.Wrap(fault.KindOf(err), err, text+"; cloche doctor, on the server, says why")
}

// reason is what an agent may read of err.
func reason(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Text()
	}
	return "the server's log has the cause"
}

func limitsOf(c *config.Config) limits {
	return limits{
		TimeoutSeconds: time.Duration(c.Calls.Timeout).Seconds(), MaxTimeoutSeconds: time.Duration(c.Calls.MaxTimeout).Seconds(),
		CodeBytes: int64(c.Calls.MaxCode), OutputBytes: int64(c.Calls.Output),
		MemoryBytes: int64(c.Sandbox.Memory), CPUs: c.Sandbox.CPUs, PIDs: c.Sandbox.PIDs,
		WorkBytes: int64(c.Sandbox.Work), TmpBytes: int64(c.Sandbox.Tmp), ShmBytes: int64(c.Sandbox.Shm),
	}
}

// enforced says who holds the limits.
func enforced(s shim.Setup) string {
	if s.Limits.All() {
		return "by the kernel, for all processes of the sandbox together"
	}
	return "as far as the server can without control groups: " + s.Instead()
}

// text says the same in words.
func (s status) text() string {
	l := s.Limits
	var b strings.Builder
	fmt.Fprintf(&b, "cloche %s · Python %s · image %s · network %s · conversation %s\n", s.Version, s.Python, s.Image, s.Network, s.Conversation)
	fmt.Fprintf(&b, "workspace: %s\n", s.Workspace)
	fmt.Fprintf(&b, "time: %g s a call, at most %g s with timeout_seconds\n", l.TimeoutSeconds, l.MaxTimeoutSeconds)
	fmt.Fprintf(&b, "memory %s, processors %g, processes %s; enforced %s\n",
		human.Bytes(l.MemoryBytes), l.CPUs, human.Count(l.PIDs), l.Enforced)
	fmt.Fprintf(&b, "/work %s, /tmp %s, /dev/shm %s; they count as memory\n", human.Bytes(l.WorkBytes), human.Bytes(l.TmpBytes), human.Bytes(l.ShmBytes))
	fmt.Fprintf(&b, "code up to %s; of stdout and of stderr %s each are shown\n", human.Bytes(l.CodeBytes), human.Bytes(l.OutputBytes))
	for _, n := range s.Notices {
		fmt.Fprintf(&b, "notice: %s\n", n)
	}
	if len(s.Loaded) > 0 {
		fmt.Fprintf(&b, "imported in advance: %s\n", strings.Join(s.Loaded, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(s.NotLoaded)) {
		fmt.Fprintf(&b, "not imported in advance: %s, because %s\n", name, s.NotLoaded[name])
	}
	b.WriteString("installed packages: ")
	for i, p := range s.Packages {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", p.Name, p.Version)
	}
	if s.More > 0 {
		fmt.Fprintf(&b, ", and %s more", human.Count(int64(s.More)))
	}
	b.WriteString("\nrecent conversations:\n")
	for _, c := range s.Conversations {
		fmt.Fprintf(&b, "%s, last used %s, %s\n", c.ID, c.Used, human.Plural(int64(c.Calls), "call"))
	}
	return b.String()
}
