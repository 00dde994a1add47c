package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/cleanup"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/template"
)

const (
	// maxTemplates bounds how many there are; the one longest unused makes room.
	maxTemplates = 4
	// doubt is how long no template is tried after one could not be started, or
	// nothing could be forked from it maxFailures times in a row.
	doubt       = time.Minute
	maxFailures = 3
	// shortLife is how long a template has to live to be replaced as soon as it ends.
	shortLife = 10 * time.Second
	// unused is how long one is kept that nothing is forked from, while others are.
	unused = 10 * time.Minute
	// templateMemory and templatePIDs bound what imports take, of all of a template.
	templateMemory = 4 << 30
	templatePIDs   = 4096
	// maxModules and maxModule bound what the server may ask for.
	maxModules = 64
	maxModule  = 200
)

// templating is a template, from the wish for it on.
type templating struct {
	made chan struct{} // closed when t and err are set
	t    *template.Template
	err  error
	at   time.Time // when it was made

	// Of the Runner's mu:
	used     time.Time
	failures int // how often in a row nothing could be forked
}

// Preloaded implements sandbox.Preloader.
func (r *Runner) Preloaded(ctx context.Context, spec sandbox.Spec) error {
	root, done, err := r.root(spec)
	if err != nil {
		return err
	}
	defer done()
	spec.Limits = enforceable(spec.Limits)
	t, err := r.template(ctx, root, spec)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "sandboxes start without a template here")
	}
	_, err = t.Settled(ctx)
	return err
}

// Why there is no template.
var (
	errCold    = errors.New("templates are turned off")
	errChanged = errors.New("the image has changed meanwhile")
)

// template returns the template for sandboxes of spec, which is started if there
// is none.
func (r *Runner) template(ctx context.Context, from *root, spec sandbox.Spec) (*template.Template, error) {
	if r.cold || loosened() { // walls are taken off a container that libcontainer makes whole
		return nil, errCold
	}
	if r.roots.replaced(from) {
		return nil, errChanged // its templates are closed, and no other one would be
	}
	root := from.dir
	r.mu.Lock()
	key := r.key(root, spec)
	e := r.templates[key]
	if e == nil || e.stale() {
		old := e
		if old == nil {
			r.crowd()
		}
		e = &templating{made: make(chan struct{})}
		r.templates[key] = e
		r.work.Go(func() { r.start(context.WithoutCancel(ctx), e, old, root, spec) })
	}
	e.used = time.Now()
	r.mu.Unlock()
	select {
	case <-e.made:
		return e.t, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// forked takes note of what came of a fork from the template t. When that has
// failed often in a row, sandboxes start without it for a while.
func (r *Runner) forked(t *template.Template, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, e := range r.templates {
		select {
		case <-e.made:
		default:
			continue
		}
		switch {
		case e.t != t:
		case err == nil:
			e.failures = 0
		case e.failures+1 < maxFailures:
			e.failures++
		default:
			none := &templating{made: make(chan struct{}), err: err, at: time.Now()}
			close(none.made)
			r.templates[key] = none
			r.work.Go(func() { r.closeTemplate(e) })
		}
	}
}

// key is what the template for spec goes by. Without modules any of the same root
// filesystem and environment will do.
// Preconditions: r.mu is held.
func (r *Runner) key(root string, spec sandbox.Spec) string {
	key := root + "\x00" + threads(spec.Limits) + "\x00"
	if len(spec.Preload) > 0 {
		return key + strings.Join(spec.Preload, "\x00")
	}
	for other := range r.templates {
		if strings.HasPrefix(other, key) {
			return other
		}
	}
	return key
}

// stale says that another one is to be tried.
func (e *templating) stale() bool {
	select {
	case <-e.made:
	default:
		return false
	}
	if e.t == nil {
		return time.Since(e.at) > doubt
	}
	return e.t.Gone() && time.Since(e.at) > shortLife
}

// start makes a template, after the one that it replaces was closed.
func (r *Runner) start(ctx context.Context, e, old *templating, root string, spec sandbox.Spec) {
	defer close(e.made)
	if old != nil {
		r.closeTemplate(old)
	}
	e.t, e.err = r.newTemplate(ctx, root, spec)
	e.at = time.Now()
	if e.err != nil {
		r.log.WarnContext(ctx, "start a template; sandboxes start without one", slog.Any("error", e.err))
	}
}

// crowd makes room for one more template: those close that were not used for long,
// and if there are as many as may be, the one that was not for longest.
// Preconditions: r.mu is held.
func (r *Runner) crowd() {
	oldest := ""
	for key, e := range r.templates {
		if time.Since(e.used) > unused {
			r.drop(key)
		} else if oldest == "" || e.used.Before(r.templates[oldest].used) {
			oldest = key
		}
	}
	if len(r.templates) >= maxTemplates {
		r.drop(oldest)
	}
}

// drop closes a template in the background.
// Preconditions: r.mu is held.
func (r *Runner) drop(key string) {
	e := r.templates[key]
	delete(r.templates, key)
	r.work.Go(func() { r.closeTemplate(e) })
}

func (r *Runner) closeTemplate(e *templating) {
	<-e.made
	if e.t == nil {
		return
	}
	if err := e.t.Close(); err != nil {
		r.log.Warn("close a template", slog.Any("error", err))
	}
}

// closeTemplatesOf closes those that see a root filesystem which was replaced.
func (r *Runner) closeTemplatesOf(old *root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.templates {
		if strings.HasPrefix(key, old.dir+"\x00") {
			r.drop(key)
		}
	}
}

// closeTemplates closes all and waits for those that are being closed.
// Preconditions: no sandbox is being started.
func (r *Runner) closeTemplates() {
	r.mu.Lock()
	all := r.templates
	r.templates = map[string]*templating{}
	r.mu.Unlock()
	for _, e := range all {
		r.closeTemplate(e)
	}
	r.work.Wait()
}

// module matches what Python may be asked to import.
var module = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// checkModules refuses what are no names of modules.
func checkModules(names []string) error {
	if len(names) > maxModules {
		return fault.New(fault.Invalid, "%d modules are to be imported in advance; at most %d can be", len(names), maxModules)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fault.New(fault.Invalid, "module %.200q is to be imported in advance twice", name)
		}
		if len(name) > maxModule || !module.MatchString(name) {
			return fault.New(fault.Invalid, "%.200q is no name of a Python module", name)
		}
	}
	return nil
}

// newTemplate starts a template in a container of its own, whose user and
// processes are this one's: it is not for keeping anything in, but for a view of
// the image's files and nothing else.
func (r *Runner) newTemplate(ctx context.Context, root string, spec sandbox.Spec) (*template.Template, error) {
	if err := checkModules(spec.Preload); err != nil {
		return nil, err
	}
	return template.New(ctx, template.Options{
		Modules: spec.Preload, Log: r.log,
		Start: func(socket *os.File) (func() error, error) { return r.startTemplate(root, spec, socket) },
	})
}

// startTemplate starts the container of a template.
func (r *Runner) startTemplate(root string, spec sandbox.Spec, socket *os.File) (end func() error, err error) {
	id := "template-" + rand.Text()
	group := ""
	if r.cgroup != "" {
		group = filepath.Join(r.cgroup, id)
	}
	own := slice{single: r.ids.single}
	lc, err := libcontainer.Create(r.stateDir(), id, r.templateConfig(id, root, group, own))
	if err != nil {
		return nil, fmt.Errorf("create the template's container: %w", err)
	}
	cu := cleanup.Make(func() { _ = lc.Destroy() })
	defer cu.Clean()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := r.process(own, spec.Limits, "-", pydriver.TemplateArgument)
	p.UID, p.GID = 0, 0
	p.Rlimits = []configs.Rlimit{same(unix.RLIMIT_CORE, 1)}
	p.Stderr, p.ExtraFiles = write, []*os.File{socket}
	said := newTail(read)
	err = lc.Run(p)
	_ = write.Close()
	if err != nil {
		said.close()
		return nil, fmt.Errorf("run the template's container: %w; it said: %s", err, said)
	}
	cu.Release()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, err := p.Wait()
		r.log.Debug("a template ended", slog.Any("state", state), slog.Any("error", err), slog.String("said", said.String()))
	}()
	return func() error {
		err := p.Signal(unix.SIGKILL)
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		<-ended
		said.close()
		// Also what modules have started: libcontainer knows of no process but one.
		cgroup.At(group).Kill()
		return errors.Join(err, lc.Destroy())
	}, nil
}

// templateConfig is the configuration of a template's container.
func (r *Runner) templateConfig(id, root, group string, own slice) *configs.Config {
	c := r.config(id, root, group, own, sandbox.Spec{})
	c.Namespaces.Remove(configs.NEWUSER)
	c.Namespaces.Remove(configs.NEWPID)
	c.UIDMappings, c.GIDMappings, c.Sysctl = nil, nil, nil
	for _, place := range []string{"/tmp", "/dev/shm", "/work"} {
		c.Mounts = append(c.Mounts, &configs.Mount{
			Source: "template", Destination: place, Device: "tmpfs", Data: "size=256m,mode=1777", Flags: unix.MS_NOSUID | unix.MS_NODEV,
		})
	}
	if group != "" {
		limits := &cgroups.Resources{}
		if r.limits.Memory {
			limits.Memory = templateMemory
		}
		if r.limits.PIDs {
			limits.PidsLimit = new(int64(templatePIDs))
		}
		c.Cgroups.Resources = limits
	}
	return c
}
