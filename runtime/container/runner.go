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
	"sync"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // enters namespaces before Go starts
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

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
	// Cold says that each sandbox starts Python anew, from no template.
	Cold bool
	Log  *slog.Logger
}

// A Runner makes sandboxes in this process's namespaces.
type Runner struct {
	dir       string
	cgroup    string
	limits    cgroup.Limits
	ids       *ids
	cold      bool
	swapLimit bool
	behind    *configs.Scheduler // where no control group limits processors
	ipcLimits bool               // they can be set
	tcpLimits bool               // there are such
	maxFiles  uint64
	guard     *watch.Guard
	log       *slog.Logger
	roots     *roots

	work sync.WaitGroup // what ends templates

	mu        sync.Mutex
	live      map[string]*Container  // mu
	templates map[string]*templating // by what they are of; mu
}

var (
	_ sandbox.Runner    = (*Runner)(nil)
	_ sandbox.Preloader = (*Runner)(nil)
)

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
		dir: o.Dir, cgroup: o.Cgroup, limits: o.Limits, ids: ids, log: o.Log, cold: o.Cold,
		roots: &roots{dir: o.Dir, named: map[string]*root{}, files: []rootfs.File{
			{Name: stepPath, Data: self, Mode: 0o755},
			{Name: filterPath, Data: loosenFilter(filter), Mode: 0o644},
			{Name: parentPath, Data: []byte(loosenParent(pydriver.Source)), Mode: 0o644},
		}},
		swapLimit: swapLimit(), maxFiles: ids.files(files.Max),
		guard: watch.NewGuard(host, o.Log), behind: behind(), ipcLimits: ipcLimits(), tcpLimits: tcpLimits(),
		live: map[string]*Container{}, templates: map[string]*templating{},
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

// stateDir is libcontainer's.
func (r *Runner) stateDir() string { return filepath.Join(r.dir, "state") }

// root returns the root filesystem for spec. Release is to be called once nothing
// starts from it.
func (r *Runner) root(spec sandbox.Spec) (now *root, release func(), err error) {
	now, old, release, err := r.roots.take(spec)
	if old != nil {
		r.closeTemplatesOf(old)
	}
	return now, release, err
}

// Start implements sandbox.Runner.
func (r *Runner) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	root, done, err := r.root(spec)
	if err != nil {
		return nil, err
	}
	defer done()
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
	c := &Container{r: r, id: id, group: group, spec: spec, ids: own, release: release, done: make(chan struct{})}
	if err := c.start(ctx, root, control); err != nil {
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
	r.closeTemplates()
	r.guard.Close()
	return errors.Join(errs...)
}
