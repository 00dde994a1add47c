// Package conversation is one conversation's life: its id, the queue of its
// calls, and the sandbox that its code runs in. It knows nothing of protocols.
package conversation

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/admission"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// cleanTimeout bounds what is done to a sandbox between calls.
const cleanTimeout = 10 * time.Second

// A Conversation owns what its calls share. Its methods may be called from
// several goroutines; calls take turns.
type Conversation struct {
	ID        string
	Principal string

	set   *Set
	queue Queue

	mu      sync.Mutex
	used    time.Time   // mu; when a call last began or ended
	calls   int         // mu; how many have begun
	box     *box        // mu; nil if there is none
	idle    *time.Timer // mu; ends the box
	running bool        // mu; a call runs in the box, or is about to
	told    bool        // mu; the agent knows the id
}

// A box is a sandbox of a conversation.
type box struct {
	*pydriver.Process
	kind string // the digest of its kind
	seat *admission.Seat
}

// A Job is code to run.
type Job struct {
	Kind pool.Kind
	Code string
	// Timeout is how long it may run.
	Timeout time.Duration
	// Idle is how long the sandbox is kept afterwards.
	Idle time.Duration
	// Stdout and Stderr take what the code writes, each from one goroutine.
	Stdout, Stderr io.Writer
}

// Enter waits for the turn of the call of that number; see Queue.Enter.
func (c *Conversation) Enter(ctx context.Context, number, maxWaiting int) (turn *Turn, err error) {
	turn, err = c.queue.Enter(ctx, number, maxWaiting)
	if err == nil {
		c.touch()
	}
	return turn, err
}

// Begin counts a call and returns its number; the first is 1.
func (c *Conversation) Begin() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.used = time.Now()
	return c.calls
}

// Tell says whether the agent is to be told the conversation's id now: once.
func (c *Conversation) Tell() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told
	c.told = true
	return !told
}

func (c *Conversation) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
}

// Run runs a job in a fresh process of the conversation's sandbox. When it
// returns nothing of the job runs any more; the sandbox is cleaned in the
// background, and turn ends when that is done.
// Preconditions: turn is the caller's, of this conversation. Run ends it.
func (c *Conversation) Run(ctx context.Context, turn *Turn, job Job) (sandbox.Exit, error) {
	defer turn.Leave()
	for attempt := 1; ; attempt++ {
		box, err := c.take(ctx, job)
		if again(ctx, err, attempt) {
			continue // the shim ended while it made one
		}
		if err != nil {
			return sandbox.Exit{}, err
		}
		exit, err := box.RunFor(ctx, job.Timeout, job.Code, job.Stdout, job.Stderr)
		if again(ctx, err, attempt) {
			// It ended between calls, and the code was not run.
			c.drop(ctx, box)
			continue
		}
		if err != nil || exit.Lost != "" {
			c.drop(ctx, box)
			return exit, err
		}
		turn.Keep()
		c.set.work.Go(func() {
			defer turn.End()
			c.clean(context.WithoutCancel(ctx), box, job.Idle)
		})
		return exit, nil
	}
}

// again says whether to try once more, with another sandbox, after an error that
// says that one has ended: it may have ended with its shim, and so may the next,
// which was warm, and the one after it, which was being made. A call that was
// cancelled is not tried again.
func again(ctx context.Context, err error, attempt int) bool {
	const most = 4
	return err != nil && attempt < most && fault.KindOf(err) == fault.Gone && ctx.Err() == nil
}

// take waits until the call may run, and returns the conversation's sandbox, if it
// is of the job's kind and lives, or a new one, marked as in use.
func (c *Conversation) take(ctx context.Context, job Job) (*box, error) {
	limits := job.Kind.Spec.Limits
	r := admission.Request{Principal: c.Principal, Conversation: c.ID, Memory: limits.MemoryBytes, CPUs: limits.CPUs}
	if b := c.claim(ctx, job.Kind); b != nil {
		if _, err := c.set.gate.Enter(ctx, r, b.seat); err != nil {
			c.rest(b, job.Idle)
			return nil, err
		}
		return b, nil
	}
	seat, err := c.set.gate.Enter(ctx, r, nil)
	if err != nil {
		c.unclaim()
		return nil, err
	}
	process, err := c.set.pool.Take(ctx, job.Kind)
	if err != nil {
		seat.Leave()
		c.unclaim()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.box = &box{process, job.Kind.Digest, seat}
	return c.box, nil
}

// claim marks the conversation as one in which a call runs, or is about to, so
// that its sandbox stays, and returns that. One that is of another kind, has ended
// or lacks modules that there are by now, is dropped.
func (c *Conversation) claim(ctx context.Context, kind pool.Kind) *box {
	c.mu.Lock()
	c.running = true
	c.used = time.Now()
	if c.idle != nil {
		c.idle.Stop()
	}
	b := c.box
	c.mu.Unlock()
	if b == nil {
		return nil
	}
	select {
	case <-b.Gone():
	default:
		if b.kind == kind.Digest && !c.set.pool.Behind(b.kind, b.Process) {
			return b
		}
	}
	c.drop(ctx, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
	return nil
}

// unclaim says that there is no call any more, and no sandbox.
func (c *Conversation) unclaim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
}

// clean makes the sandbox as new for the next call, and starts the time after
// which it is ended. It is ended at once where its room is wanted.
func (c *Conversation) clean(ctx context.Context, b *box, idle time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	if c.set.pool.Behind(b.kind, b.Process) {
		c.drop(ctx, b) // the next one is better
		return
	}
	if err := b.Refresh(ctx); err != nil {
		c.set.log.WarnContext(ctx, "clean a sandbox; it is replaced", slog.String("conversation", c.ID), slog.Any("error", err))
		c.drop(ctx, b)
		return
	}
	c.rest(b, idle)
	if !b.seat.Rest() {
		c.dropIdle(ctx, b)
	}
}

// rest says that no call uses the sandbox, and starts the time after which it is
// ended.
func (c *Conversation) rest(b *box, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	c.used = time.Now()
	c.idle = time.AfterFunc(idle, func() { c.evict(b) })
}

// evict ends b if it is still the conversation's and idle.
func (c *Conversation) evict(b *box) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Close ends the set's context before it looks for work, and takes c.mu in
	// between: no work begins that it would not wait for.
	if c.set.ctx.Err() != nil || !c.detach(b, true) {
		return
	}
	c.set.work.Go(func() { c.destroy(c.set.ctx, b) })
}

// drop ends b, unless somebody else does already.
func (c *Conversation) drop(ctx context.Context, b *box) {
	c.mu.Lock()
	ours := c.detach(b, false)
	c.mu.Unlock()
	if ours {
		c.destroy(ctx, b)
	}
}

// dropIdle ends b if no call uses it.
func (c *Conversation) dropIdle(ctx context.Context, b *box) {
	c.mu.Lock()
	ours := c.detach(b, true)
	c.mu.Unlock()
	if ours {
		c.destroy(ctx, b)
	}
}

// detach forgets b, which is then the caller's to destroy; false if it is not
// the conversation's any more, or in use and was to be idle.
// Preconditions: c.mu is held.
func (c *Conversation) detach(b *box, idle bool) bool {
	if c.box != b || idle && c.running {
		return false
	}
	c.box, c.running = nil, false
	if c.idle != nil {
		c.idle.Stop()
	}
	return true
}

// destroy ends a sandbox that was detached.
func (c *Conversation) destroy(ctx context.Context, b *box) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if err := b.Destroy(ctx); err != nil && !errors.Is(err, context.Canceled) {
		c.set.log.WarnContext(ctx, "destroy a sandbox", slog.String("conversation", c.ID), slog.Any("error", err))
	}
	b.seat.Leave()
}

// idleSince returns the sandbox and the time since which nothing used it; nil
// if there is none or it is in use.
func (c *Conversation) idleSince() (*box, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		return nil, time.Time{}
	}
	return c.box, c.used
}

// isBrisk says whether the conversation is in the middle of its work.
func (c *Conversation) isBrisk() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls > 1 && time.Since(c.used) < brisk
}

// unused says whether the conversation has no sandbox and is not about to get
// one, and when it was last used.
func (c *Conversation) unused() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, c.box == nil && !c.running
}

// Info tells of a conversation.
type Info struct {
	ID      string
	Used    time.Time
	Calls   int
	Sandbox bool
}

func (c *Conversation) info() Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Info{ID: c.ID, Used: c.used, Calls: c.calls, Sandbox: c.box != nil}
}
