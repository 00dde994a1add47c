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
	used    time.Time         // mu; when a call last began or ended
	calls   int               // mu; how many have begun
	box     *pydriver.Process // mu; nil if there is none
	kind    string            // mu; the digest of the box's kind
	idle    *time.Timer       // mu; ends the box
	running bool              // mu
	told    bool              // mu; the agent knows the id
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
		box, err := c.take(ctx, job.Kind)
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

// take returns the conversation's sandbox, if it is of kind and lives, or a new
// one, and marks it as in use.
func (c *Conversation) take(ctx context.Context, kind pool.Kind) (*pydriver.Process, error) {
	c.mu.Lock()
	box, same := c.box, c.kind == kind.Digest
	c.running = true
	c.used = time.Now()
	if c.idle != nil {
		c.idle.Stop()
	}
	c.mu.Unlock()
	if box != nil {
		select {
		case <-box.Gone():
			same = false
		default:
		}
		if same {
			return box, nil
		}
		c.drop(ctx, box)
	}
	box, err := c.set.start(ctx, kind)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.running = false
		return nil, err
	}
	c.box, c.kind, c.running = box, kind.Digest, true
	return box, nil
}

// clean makes the sandbox as new for the next call, and starts the time after
// which it is ended.
func (c *Conversation) clean(ctx context.Context, box *pydriver.Process, idle time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	if err := box.Refresh(ctx); err != nil {
		c.set.log.WarnContext(ctx, "clean a sandbox; it is replaced", slog.String("conversation", c.ID), slog.Any("error", err))
		c.drop(ctx, box)
		return
	}
	defer c.set.idled()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	c.used = time.Now()
	c.idle = time.AfterFunc(idle, func() { c.evict(box) })
}

// evict ends the sandbox if it is still box and idle.
func (c *Conversation) evict(box *pydriver.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Close ends the set's context before it looks for work, and takes c.mu in
	// between: no work begins that it would not wait for.
	if c.set.ctx.Err() != nil || !c.detach(box, true) {
		return
	}
	c.set.work.Go(func() { c.destroy(c.set.ctx, box) })
}

// drop ends box, unless somebody else does already.
func (c *Conversation) drop(ctx context.Context, box *pydriver.Process) {
	c.mu.Lock()
	ours := c.detach(box, false)
	c.mu.Unlock()
	if ours {
		c.destroy(ctx, box)
	}
}

// dropIdle ends box if no call uses it; it says whether it did.
func (c *Conversation) dropIdle(ctx context.Context, box *pydriver.Process) bool {
	c.mu.Lock()
	ours := c.detach(box, true)
	c.mu.Unlock()
	if ours {
		c.destroy(ctx, box)
	}
	return ours
}

// detach forgets box, which is then the caller's to destroy; false if it is not
// the conversation's any more, or in use and was to be idle.
// Preconditions: c.mu is held.
func (c *Conversation) detach(box *pydriver.Process, idle bool) bool {
	if c.box != box || idle && c.running {
		return false
	}
	c.box, c.kind, c.running = nil, "", false
	if c.idle != nil {
		c.idle.Stop()
	}
	return true
}

// destroy ends a sandbox that was detached.
func (c *Conversation) destroy(ctx context.Context, box *pydriver.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if err := box.Destroy(ctx); err != nil && !errors.Is(err, context.Canceled) {
		c.set.log.WarnContext(ctx, "destroy a sandbox", slog.String("conversation", c.ID), slog.Any("error", err))
	}
	c.set.ended()
}

// idleSince returns the sandbox and the time since which nothing used it; nil
// if there is none or it is in use.
func (c *Conversation) idleSince() (*pydriver.Process, time.Time) {
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
