// Package sandbox holds the nouns of isolation: what a sandbox is asked to be,
// what may be asked of one, and how a program in it ended. Who makes sandboxes
// is a Runner: package container on libcontainer, package shim at the other end
// of a socket.
package sandbox

import (
	"context"
	"os"
	"time"
)

// A Spec names what a sandbox is made of. It holds names and sizes, never paths
// or flags, for it crosses to a program with more power than its sender.
type Spec struct {
	// Image is the name of the image: "host".
	Image string `json:"image"`
	// Hide lists names or patterns below /usr that image "host" leaves out.
	Hide []string `json:"hide,omitempty"`
	// Preload names Python modules that are imported before any call, once for
	// all sandboxes that name the same. The first sandboxes may come without them.
	Preload []string `json:"preload,omitempty"`
	// Limits bound everything that runs in the sandbox, together.
	Limits Limits `json:"limits"`
}

// Limits bound a sandbox. Zero means "the Runner's smallest", never "none".
type Limits struct {
	// MemoryBytes bounds memory, page cache of tmpfs included; swap is not added.
	MemoryBytes int64 `json:"memory_bytes"`
	// CPUs is how many processors' time it may use, in all.
	CPUs float64 `json:"cpus"`
	// PIDs bounds processes and threads.
	PIDs int64 `json:"pids"`
	// WorkBytes, TmpBytes and ShmBytes bound /work, /tmp and /dev/shm.
	WorkBytes int64 `json:"work_bytes"`
	TmpBytes  int64 `json:"tmp_bytes"`
	ShmBytes  int64 `json:"shm_bytes"`
}

// IDs is how many user ids a sandbox has that no other has, where the server has
// so many to give: that of the user that code runs as, 1000, and what programs
// expect below it.
const IDs = 2048

// A Runner makes sandboxes. It may be used from several goroutines.
type Runner interface {
	// Start makes a sandbox and starts the Python parent in it, which finds
	// control, one end of a SOCK_SEQPACKET pair, as descriptor 3 and says there
	// when it is ready. After an error nothing is left behind. Start does not
	// close control. Ending ctx ends the start, not the sandbox.
	Start(ctx context.Context, spec Spec, control *os.File) (Container, error)
	// Close destroys what is left of the sandboxes and waits for that.
	Close() error
}

// A Container is a started sandbox. Its methods may be called from several
// goroutines. It lives until Destroy, or until its Runner ends.
type Container interface {
	// Refresh replaces /work, /tmp and /dev/shm by empty ones and removes System
	// V and POSIX objects. Preconditions: only the parent runs in the sandbox.
	Refresh(ctx context.Context) error
	// Usage tells what the sandbox has used. The peak is that since the last
	// call of Usage, where the kernel can say so.
	Usage(ctx context.Context) (Usage, error)
	// Destroy kills what runs in the sandbox and removes it. Destroying twice is
	// no error.
	Destroy(ctx context.Context) error
}

// A Waker is a Container that may be looked after by somebody who rests while
// nothing runs in it.
type Waker interface {
	// Wake tells that a call is about to begin. It does not wait for anything to
	// come of that.
	Wake(ctx context.Context) error
}

// A Preloader is a Runner that imports modules in advance.
type Preloader interface {
	// Preloaded waits until the modules that spec names are imported, as far as
	// they can be, or the end of ctx. Sandboxes that are started from then on have
	// them, while whoever holds them lives. It returns an error if none will.
	Preloaded(ctx context.Context, spec Spec) error
}

// Usage is what a sandbox has used.
type Usage struct {
	// OOMKills counts how often a process, or all of them, was ended because the
	// sandbox was at its memory limit, from its start on.
	OOMKills uint64 `json:"oom_kills"`
	// PeakBytes is the most memory it held; 0 if unknown.
	PeakBytes uint64 `json:"peak_bytes"`
	// Limited says that a memory limit is enforced for the sandbox as a whole.
	Limited bool `json:"limited"`
	// Watched says that this is done by looking: the limit may be passed for a
	// moment, and then all of a call is ended.
	Watched bool `json:"watched"`
}

// An Exit says how a program in a sandbox ended. Exactly one of the causes
// holds: Code when neither Signal nor TimedOut nor Stopped nor OutOfMemory nor
// Lost is set.
type Exit struct {
	Code   int
	Signal int
	// TimedOut: it ran past the limit of its call and was ended.
	TimedOut bool
	// Stopped: the client cancelled the call, or the server is stopping.
	Stopped bool
	// OutOfMemory: it was ended because the sandbox was at its limit.
	OutOfMemory bool
	// Lost is not empty when the whole sandbox ended, and says why.
	Lost string
	// MemoryLimit and MemoryPeak go with OutOfMemory, in bytes; 0 if unknown. A
	// limit without it says that memory ended another process of the call.
	MemoryLimit, MemoryPeak int64
	// Duration is the time that the code ran.
	Duration time.Duration
}
