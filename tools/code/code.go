// Package code holds the tools that run code and say what it runs in.
package code

import (
	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
)

// Kind returns the kind of sandbox that a policy asks for. It is another one when
// the image has changed.
func Kind(c *config.Config) pool.Kind {
	s := c.Sandbox
	return pool.Kind{
		Digest: c.SandboxDigest() + "-" + rootfs.HostState(),
		Spec: sandbox.Spec{
			Image: s.Image,
			Hide:  s.Host.Hide,
			Limits: sandbox.Limits{
				MemoryBytes: int64(s.Memory), CPUs: s.CPUs, PIDs: s.PIDs,
				WorkBytes: int64(s.Work), TmpBytes: int64(s.Tmp), ShmBytes: int64(s.Shm),
			},
		},
		Preload: s.Preload.Names(),
	}
}

// MaxCall returns how many bytes a call may have that code_interpreter takes: its
// code, with room for how JSON writes characters, and what is around it.
func MaxCall(c *config.Config) int {
	const around = 64 << 10
	return 2*int(c.Calls.MaxCode) + around
}
