package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/cleanup"
	"cloche.dev/cloche/runtime/template"
)

// fork makes the container around a process that is forked from a template: that
// makes the user and the pid namespace, libcontainer the others, with a process
// of its own that ends when this one has joined them. After an error nothing is
// left behind.
func (c *Container) fork(ctx context.Context, t *template.Template, root string, control *os.File) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	c.said = newTail(read)
	n, err := t.Fork(ctx, template.Birth{Control: control, Errors: write, IDs: c.ids.line(), Plain: len(c.spec.Preload) == 0})
	_ = write.Close()
	if err != nil {
		c.said.close()
		return err
	}
	c.self = n.Self
	go c.reap()
	cu := cleanup.Make(func() {
		n.Abandon()
		_ = c.kill()
		c.ended(killTime) // else what is there to remove would be in use
		c.said.close()
		_ = c.self.Close()
		if c.lc != nil {
			_ = c.lc.Destroy()
		}
		c.self, c.said, c.lc, c.done = nil, nil, nil, make(chan struct{})
	})
	defer cu.Clean()
	if err := c.surround(ctx, n, root); err != nil {
		return fmt.Errorf("%w; Python said: %s", err, c.said)
	}
	cu.Release()
	return nil
}

// surround makes the container around a newborn process and has it join.
func (c *Container) surround(ctx context.Context, n *template.Newborn, root string) error {
	for _, l := range c.r.rlimits(c.spec.Limits) {
		if err := unix.Prlimit(n.PID, l.Type, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}, nil); err != nil {
			return fmt.Errorf("set limit %d: %w", l.Type, err)
		}
	}
	config := c.r.config(c.id, root, c.group, c.ids, c.spec)
	config.Namespaces.Add(configs.NEWUSER, fmt.Sprintf("/proc/%d/ns/user", n.PID))
	config.Namespaces.Add(configs.NEWPID, fmt.Sprintf("/proc/%d/ns/pid", n.PID))
	lc, err := libcontainer.Create(c.r.stateDir(), c.id, config)
	if err != nil {
		return fmt.Errorf("create container: %w", err)
	}
	c.lc = lc
	p := c.r.process(c.ids, c.spec.Limits, filterPath)
	p.Rlimits = nil
	if err := lc.Start(p); err != nil {
		return fmt.Errorf("start container: %w", err)
	}
	namespaces, err := c.take(p, n.PID)
	defer func() {
		for _, f := range namespaces {
			_ = f.Close()
		}
	}()
	// What libcontainer started has done its work.
	err = errors.Join(err, p.Signal(unix.SIGKILL))
	if _, werr := p.Wait(); err == nil {
		if _, killed := errors.AsType[*exec.ExitError](werr); !killed {
			err = werr
		}
	}
	if err != nil {
		return err
	}
	if err := n.Join(ctx, namespaces); err != nil {
		return fmt.Errorf("%w: %w", errJoining, err)
	}
	return nil
}

// errJoining says that a process was to join its container.
var errJoining = errors.New("join the container")

// take opens the namespaces of libcontainer's process, for who is to join them,
// and moves that one into the container's control groups. After an error the
// caller still is to close what it returns.
func (c *Container) take(p *libcontainer.Process, newborn int) ([]*os.File, error) {
	pid, err := p.Pid()
	if err != nil {
		return nil, err
	}
	var namespaces []*os.File
	for _, kind := range []string{"mnt", "net", "ipc", "uts", "cgroup"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			return namespaces, err
		}
		namespaces = append(namespaces, f)
	}
	if c.group == "" {
		return namespaces, nil
	}
	// Version 1 lets only its own user move a process, so before it changes users.
	state, err := c.lc.State()
	if err != nil {
		return namespaces, err
	}
	done := map[string]bool{}
	for kind, dir := range state.CgroupPaths {
		if done[dir] || kind == "" && !cgroup.V2() {
			continue // beside those of version 1, that of version 2 limits nothing
		}
		done[dir] = true
		if err := cgroups.WriteCgroupProc(dir, newborn); err != nil {
			return namespaces, fmt.Errorf("move into the control group: %w", err)
		}
	}
	return namespaces, nil
}

// reap waits for the end of a first process that was forked from a template. As
// nothing but the container's namespaces keeps it, it is given to this process,
// the first of its pid namespace, when the one that forked it has ended.
func (c *Container) reap() {
	defer close(c.done)
	status, err := template.Wait(c.self)
	c.r.log.Debug("first process of a sandbox ended", slog.String("sandbox", c.id), slog.Int("status", status),
		slog.Any("error", err), slog.String("said", c.said.String()))
}
