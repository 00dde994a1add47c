// Package container makes sandboxes with libcontainer. It is linked by the shim
// alone, whose process must be the init of user, mount and pid namespaces of
// its own: when it dies the kernel ends its containers, and it has no power
// over the host. Its program calls Init before anything else.
package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // enters namespaces before Go starts
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/seccomp"
	"cloche.dev/cloche/runtime/watch"
)

// Init becomes the first process of a container and does not return, if this
// process was started for that; else it returns at once.
func Init() {
	if len(os.Args) == 2 && os.Args[1] == "init" {
		libcontainer.Init()
	}
}

// Options tell a Runner what it was given.
type Options struct {
	// Dir is an empty directory of the runner's own, in a mount namespace that
	// nobody else has.
	Dir string
	// Cgroup is the control group for sandboxes, from the root of the
	// hierarchies; "" means that there is none.
	Cgroup string
	// Limits are those that can be set below Cgroup.
	Limits cgroup.Limits
	Log    *slog.Logger
}

// A Runner makes sandboxes in this process's namespaces.
type Runner struct {
	dir       string
	cgroup    string
	limits    cgroup.Limits
	ids       *ids
	swapLimit bool
	behind    *configs.Scheduler // where no control group limits processors
	ipcLimits bool               // they can be set
	tcpLimits bool               // there are such
	maxFiles  uint64
	guard     *watch.Guard
	log       *slog.Logger
	filter    []byte
	self      []byte // this program, for the step

	mu    sync.Mutex
	roots map[string]string     // root filesystems by what they are made of; mu
	live  map[string]*Container // mu
}

var _ sandbox.Runner = (*Runner)(nil)

// New returns a Runner.
func New(o Options) (*Runner, error) {
	ids, err := readIDs()
	if err != nil {
		return nil, err
	}
	filter, err := seccomp.Program()
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("read this program: %w", err)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, err
	}
	host, err := watch.OpenHost(loosenMeminfo("/proc/meminfo"), "/proc/sys/fs/file-nr")
	if err != nil {
		return nil, err
	}
	logrus.SetOutput(io.Discard) // libcontainer's; its errors come back to us
	return &Runner{
		dir: o.Dir, cgroup: o.Cgroup, limits: o.Limits, ids: ids, log: o.Log,
		filter: loosenFilter(filter), self: self, swapLimit: swapLimit(), maxFiles: ids.files(files.Max),
		guard: watch.NewGuard(host, o.Log), behind: behind(), ipcLimits: ipcLimits(), tcpLimits: tcpLimits(),
		roots: map[string]string{}, live: map[string]*Container{},
	}, nil
}

// swapLimit says whether this kernel counts swap.
func swapLimit() bool {
	if cgroup.V2() {
		return true
	}
	_, err := os.Stat("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	return err == nil
}

// root returns the root filesystem for spec, made at its first use.
func (r *Runner) root(spec sandbox.Spec) (string, error) {
	if spec.Image != "host" {
		return "", fault.New(fault.NotFound, "no image %q; the one there is, is \"host\"", spec.Image)
	}
	key := spec.Image + "\x00" + strings.Join(spec.Hide, "\x00")
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir, ok := r.roots[key]; ok {
		return dir, nil
	}
	dir := filepath.Join(r.dir, fmt.Sprintf("root%d", len(r.roots)+1))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	err := rootfs.Host(dir, rootfs.Options{Hide: spec.Hide, Files: []rootfs.File{
		{Name: stepPath, Data: r.self, Mode: 0o755},
		{Name: filterPath, Data: r.filter, Mode: 0o644},
		{Name: parentPath, Data: []byte(loosenParent(pydriver.Source)), Mode: 0o644},
	}})
	if err != nil {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return "", err
	}
	r.roots[key] = dir
	return dir, nil
}

// Start implements sandbox.Runner.
func (r *Runner) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	root, err := r.root(spec)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	id := rand.Text()
	group := ""
	if r.cgroup != "" {
		group = filepath.Join(r.cgroup, id)
	}
	spec.Limits = enforceable(spec.Limits)
	own, release, err := r.ids.take()
	if err != nil {
		return nil, err
	}
	c := &Container{r: r, id: id, spec: spec, ids: own, release: release, done: make(chan struct{})}
	if err := c.start(root, group, control); err != nil {
		release()
		return nil, err
	}
	if err := c.observe(); err != nil {
		return nil, errors.Join(err, c.destroy())
	}
	r.mu.Lock()
	r.live[id] = c
	r.mu.Unlock()
	if err := c.Refresh(ctx); err != nil {
		return nil, errors.Join(err, c.Destroy(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Close implements sandbox.Runner.
func (r *Runner) Close() error {
	r.mu.Lock()
	live := slices.Collect(maps.Values(r.live))
	r.mu.Unlock()
	var errs []error
	for _, c := range live {
		errs = append(errs, c.destroy())
	}
	r.guard.Close()
	return errors.Join(errs...)
}

// A Container is one sandbox.
type Container struct {
	r    *Runner
	id   string
	spec sandbox.Spec
	ids  slice
	lc   *libcontainer.Container
	self *os.File      // the first process, as a pidfd: nothing else ever is what it names
	said *tail         // what the first process wrote to standard error
	done chan struct{} // closed when the first process was waited for

	release func()         // gives the ids back
	watcher *watch.Watcher // nil where a control group limits memory
	guarded *watch.Member  // nil until it is started

	mu        sync.Mutex
	destroyed bool // mu
}

// start makes the container and starts its first process.
func (c *Container) start(root, group string, control *os.File) error {
	lc, err := libcontainer.Create(filepath.Join(c.r.dir, "state"), c.id, c.r.config(c.id, root, group, c.ids, c.spec))
	if err != nil {
		return fmt.Errorf("create container: %w", err)
	}
	p := c.r.process(c.ids, c.spec.Limits)
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
		_ = read.Close()
		return errors.Join(fmt.Errorf("run container: %w", err), lc.Destroy())
	}
	if c.self, err = pidfd(p); err != nil {
		_ = read.Close()
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
// them take some 0.1 s, but longer when they have to give memory back.
const killTime = 3 * time.Second

// Destroy implements sandbox.Container.
func (c *Container) Destroy(context.Context) error { return c.destroy() }

func (c *Container) destroy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.destroyed {
		return nil
	}
	if err := c.lc.Signal(unix.SIGKILL); err != nil && !errors.Is(err, libcontainer.ErrNotRunning) {
		c.r.log.Warn("kill sandbox", slog.String("sandbox", c.id), slog.Any("error", err))
	}
	// Once the first process is waited for, every other one of its namespace is
	// gone, and the control groups are empty (pid_namespaces(7)). What a freezer
	// holds ends when libcontainer thaws it.
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
	if err := c.lc.Destroy(); err != nil {
		return fmt.Errorf("destroy sandbox: %w", err)
	}
	<-c.done
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
