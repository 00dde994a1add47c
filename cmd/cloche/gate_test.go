package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/headroom"
)

func TestCapacityOf(t *testing.T) {
	const gb = 1_000_000_000
	host := headroom.Memory{Total: 16 * gb, Available: 12 * gb}
	for _, tt := range []struct {
		name       string
		pool       config.Pool
		host       headroom.Memory
		processors int
		want       admission.Capacity
	}{
		{"auto", config.Pool{Max: 7}, host, 2, admission.Capacity{Memory: 9 * gb, Largest: 16 * gb, CPUs: 8, Sandboxes: 7}},
		{"set", config.Pool{Max: 7, Memory: 2 * gb, Processors: 1.5}, host, 2, admission.Capacity{Memory: 2 * gb, CPUs: 1.5, Sandboxes: 7}},
		{"a host with nothing left", config.Pool{Max: 7}, headroom.Memory{Total: gb}, 2, admission.Capacity{Memory: 1, Largest: gb, CPUs: 8, Sandboxes: 7}},
		{"a host that tells nothing", config.Pool{Max: 1}, headroom.Memory{}, 1, admission.Capacity{CPUs: 4, Sandboxes: 1}},
	} {
		if diff := cmp.Diff(tt.want, capacityOf(tt.pool, tt.host, tt.processors)); diff != "" {
			t.Errorf("%s: capacityOf (-want +got):\n%s", tt.name, diff)
		}
	}
}
