// Package container makes sandboxes with libcontainer. It is linked by the shim
// alone, whose process must be the init of user, mount and pid namespaces of
// its own: when it dies the kernel ends its containers, and it has no power
// over the host. Its program calls Init before anything else.
package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/watch"
)

// A Container is one sandbox.
type Container struct {
	r     *Runner
	id    string
	group string // its control group, from the root of the hierarchies; "" if none
	spec  sandbox.Spec
	ids   slice
	lc    *libcontainer.Container
	self  *os.File      // the first process, as a pidfd: nothing else ever is what it names
	said  *tail         // what the first process wrote to standard error
	done  chan struct{} // closed when the first process was waited for

	release func()         // gives the ids back
	watcher *watch.Watcher // nil where a control group limits memory
	guarded *watch.Member  // nil until it is started

	mu        sync.Mutex
	destroyed bool // mu
}

// start makes the container, with a first process that is forked from a template
// if there can be one, else with one that starts Python anew and imports nothing.
func (c *Container) start(ctx context.Context, from *root, control *os.File) error {
	t, err := c.r.template(ctx, from, c.spec)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return c.exec(from.dir, control)
	}
	err = c.fork(ctx, t, from.dir, control)
	if ctx.Err() == nil {
		c.r.forked(t, err)
	}
	// One that was joining may have said something to its server already.
	if err == nil || ctx.Err() != nil || errors.Is(err, errJoining) {
		return err
	}
	c.r.log.WarnContext(ctx, "fork a sandbox from a template; it starts without", slog.Any("error", err))
	return c.exec(from.dir, control)
}

// exec makes the container and starts its first process.
func (c *Container) exec(root string, control *os.File) error {
	lc, err := libcontainer.Create(c.r.stateDir(), c.id, c.r.config(c.id, root, c.group, c.ids, c.spec))
	if err != nil {
		return fmt.Errorf("create container: %w", err)
	}
	p := c.r.process(c.ids, c.spec.Limits, filterPath)
	read, write, err := os.Pipe()
	if err != nil {
		return errors.Join(err, lc.Destroy())
	}
	p.Stderr = write
	p.ExtraFiles = []*os.File{control}
	loosenProcess(p)
	c.said = newTail(read)
	err = lc.Run(p)
	_ = write.Close()
	if err != nil {
		c.said.close()
		return errors.Join(fmt.Errorf("run container: %w", err), lc.Destroy())
	}
	if c.self, err = pidfd(p); err != nil {
		_ = p.Signal(unix.SIGKILL)
		_, _ = p.Wait()
		c.said.close()
		return errors.Join(err, lc.Destroy())
	}
	c.lc = lc
	go func() {
		defer close(c.done)
		state, err := p.Wait()
		c.r.log.Debug("first process of a sandbox ended", slog.String("sandbox", c.id), slog.Any("state", state),
			slog.Any("error", err), slog.String("said", c.said.String()))
	}()
	return nil
}

// observe has a started sandbox watched where no control group limits its memory,
// and guarded everywhere.
func (c *Container) observe() (err error) {
	enter := func(f func() error) error { return c.inNamespaces(unix.CLONE_NEWNS|unix.CLONE_NEWIPC, f) }
	watched := !c.r.memoryLimited()
	c.guarded = c.r.guard.Add(watched, enter)
	if !watched {
		return nil
	}
	log := c.r.log.With(slog.String("sandbox", c.id))
	c.watcher, err = watch.Start(c.spec.Limits.MemoryBytes, log, enter)
	return err
}

// Wake implements sandbox.Waker.
func (c *Container) Wake(context.Context) error {
	if c.watcher != nil {
		c.watcher.Wake()
	}
	return nil
}

// pidfd returns a descriptor of p, which was started and not waited for.
func pidfd(p *libcontainer.Process) (*os.File, error) {
	pid, err := p.Pid()
	if err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open the first process: %w", err)
	}
	return os.NewFile(uintptr(fd), "first process"), nil
}

// killTime is how long the processes of a sandbox may take to end. A thousand of
// them take some 0.1 s, but much longer when they have to give memory back on a
// host that is busy.
const killTime = 20 * time.Second

// Destroy implements sandbox.Container.
func (c *Container) Destroy(context.Context) error { return c.destroy() }

func (c *Container) destroy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.destroyed {
		return nil
	}
	if err := c.kill(); err != nil {
		c.r.log.Warn("kill sandbox", slog.String("sandbox", c.id), slog.Any("error", err))
	}
	// Once the first process is waited for, every other one of its namespace is
	// gone, and the control groups are empty (pid_namespaces(7)).
	if !c.ended(killTime) {
		return fmt.Errorf("destroy sandbox: its first process did not end within %v", killTime)
	}
	if err := c.lc.Destroy(); err != nil {
		return fmt.Errorf("destroy sandbox: %w", err)
	}
	if c.watcher != nil {
		c.watcher.Close()
	}
	if c.guarded != nil {
		c.guarded.Remove()
	}
	c.said.close()
	_ = c.self.Close()
	c.release()
	c.destroyed = true
	c.r.mu.Lock()
	delete(c.r.live, c.id)
	c.r.mu.Unlock()
	return nil
}

// ended waits for the end of the first process, but no longer than limit; it says
// whether it came.
func (c *Container) ended(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// kill ends the first process, and with it all others. That it has ended before
// is no error.
func (c *Container) kill() error {
	self, err := c.self.SyscallConn()
	if err != nil {
		return err
	}
	var kerr error
	err = self.Control(func(fd uintptr) { kerr = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	cgroup.Thaw(c.group)
	if errors.Is(kerr, unix.ESRCH) {
		kerr = nil
	}
	return errors.Join(err, kerr)
}
