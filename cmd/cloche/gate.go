package main

import (
	"context"
	"runtime"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/headroom"
)

// newGate returns the gate that lets in what this host has room for, by the
// policy of the moment, in a server of that name.
func newGate(ctx context.Context, policy *config.Store, name string) *admission.Gate {
	reader := headroom.New()
	atStart, sandboxes := reader.Read(), cgroup.Find(name)
	return admission.New(ctx, admission.Options{
		Capacity: func() admission.Capacity { return capacityOf(policy.Current().Pool, atStart, runtime.NumCPU()) },
		Headroom: func() admission.Headroom {
			m := reader.Read()
			return admission.Headroom{Total: m.Total, Available: m.Available, Used: sandboxes.Used()}
		},
	})
}

// capacityOf is what there is for calls by a policy, on a host that had so much
// memory left when the server started, and so many processors.
func capacityOf(p config.Pool, atStart headroom.Memory, processors int) admission.Capacity {
	c := admission.Capacity{Sandboxes: p.Max, Memory: int64(p.Memory), CPUs: p.Processors}
	if c.Memory == 0 {
		c.Memory, c.Largest = atStart.Available/4*3, atStart.Total
		if c.Largest > 0 {
			c.Memory = max(c.Memory, 1) // 0 stands for no bound
		}
	}
	if c.CPUs == 0 {
		const each = 4 // processors are shared, and calls mostly wait
		c.CPUs = each * float64(processors)
	}
	return c
}
