// Package template has the first processes of sandboxes forked from one that is
// ready: a template, which runs in the image's root filesystem, outside of any
// sandbox, and nothing of an agent in it. One template has nothing but Python
// itself; another, which it forks, has modules imported, so that they are
// imported once and not in each sandbox. A fork shares their memory.
//
// The other end is the Python program of package pydriver.
package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of waiting for a template.
const (
	readyTimeout = 20 * time.Second
	// A template with modules that ended is replaced after firstAgain, one that
	// replaced another after twice the time, up to lastAgain; one that was there
	// for longer than that is the first again.
	firstAgain = 5 * time.Second
	lastAgain  = 5 * time.Minute
)

// Options tell what a Template is of.
type Options struct {
	// Start starts the first template process, with its end of a SOCK_SEQPACKET
	// socket as descriptor 3, in the root filesystem of an image. The function
	// that it returns ends the process and waits for that.
	Start func(socket *os.File) (end func() error, err error)
	// Modules are to be imported.
	Modules []string
	// Patience is how long the import of one module may take; zero stands for a
	// minute: a cold disk makes them slow.
	Patience time.Duration
	Log      *slog.Logger
}

// Modules are what became of those that were to be imported.
type Modules struct {
	Loaded  []string
	Skipped map[string]string // why, in words
}

// A Template is one without modules and, once it is there, one with. Its methods
// may be called from several goroutines. It is its maker's to close.
type Template struct {
	o      Options
	end    func() error
	plain  *process
	ctx    context.Context //nolint:containedctx // the template's own life, which ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	full    *process          // mu; nil until it is ready
	loaded  []string          // mu
	unfit   map[string]string // mu; modules that cannot be in a template
	skipped map[string]string // mu; these and those whose import failed
	settled chan struct{}     // mu; closed while nothing is being imported

	births sync.RWMutex // held for reading while something is forked
}

// New starts a template. It returns when sandboxes can be forked from it; then it
// goes on to import modules. After an error nothing is left behind. Ending ctx
// ends the start, not the template.
func New(ctx context.Context, o Options) (*Template, error) {
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	end, err := o.Start(theirs)
	_ = theirs.Close()
	if err != nil {
		return nil, errors.Join(err, ours.close())
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &Template{o: o, end: end, plain: newProcess(ours), ctx: life, cancel: cancel, unfit: map[string]string{}, settled: make(chan struct{})}
	if err := t.greet(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if len(o.Modules) == 0 {
		close(t.settled)
		return t, nil
	}
	t.work.Go(func() { t.keep(life) })
	return t, nil
}

// greet waits until the first process is ready.
func (t *Template) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("it was not ready within %v", readyTimeout))
	defer cancel()
	message, err := t.plain.next(ctx)
	if err == nil && message != "ready" {
		err = fmt.Errorf("it said %.100q", message)
	}
	if err != nil {
		return fmt.Errorf("start a template: %w", err)
	}
	return nil
}

// Gone says whether nothing can be forked any more.
func (t *Template) Gone() bool {
	select {
	case <-t.plain.gone:
		return true
	default:
		return t.ctx.Err() != nil
	}
}

// Settled waits until nothing is being imported and returns what became of the
// modules.
func (t *Template) Settled(ctx context.Context) (Modules, error) {
	t.mu.Lock()
	settled := t.settled
	t.mu.Unlock()
	select {
	case <-settled:
	case <-t.plain.gone:
		return Modules{}, errors.New("the template ended")
	case <-t.ctx.Done():
		return Modules{}, errors.New("the template was closed")
	case <-ctx.Done():
		return Modules{}, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return Modules{slices.Clone(t.loaded), maps.Clone(t.skipped)}, nil
}

// Close ends the template and waits for that. What is being forked from it fails;
// what was, and has joined its sandbox, goes on.
func (t *Template) Close() error {
	t.cancel()
	t.births.Lock() // nothing is forked any more
	t.work.Wait()
	t.births.Unlock()
	t.mu.Lock()
	full := t.full
	t.full = nil
	t.mu.Unlock()
	if full != nil {
		full.kill()
	}
	err := t.end()
	if full != nil {
		full.bury()
	}
	t.plain.end()
	return err
}

// best returns the process to fork from.
func (t *Template) best() *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full != nil {
		select {
		case <-t.full.gone:
		default:
			return t.full
		}
	}
	return t.plain
}

// keep keeps a process with modules, until ctx or the plain one ends.
func (t *Template) keep(ctx context.Context) {
	left := slices.Clone(t.o.Modules)
	for wait := firstAgain; ; wait = min(2*wait, lastAgain) {
		p := t.make(ctx, &left)
		begin := time.Now()
		if p != nil {
			t.settle(p)
			select {
			case <-p.gone:
			case <-ctx.Done():
				return
			}
			t.o.Log.WarnContext(ctx, "the template with modules ended and is replaced")
			t.unsettle(p)
		}
		if time.Since(begin) > lastAgain {
			wait = firstAgain
		}
		select {
		case <-time.After(wait):
		case <-t.plain.gone:
			return
		case <-ctx.Done():
			return
		}
	}
}

// make makes a process with the modules that are left, and be it none, leaving out
// those that cannot be in one. It returns nil if it cannot for another reason.
func (t *Template) make(ctx context.Context, left *[]string) *process {
	for {
		p, unfit := t.load(ctx, *left)
		if p != nil || unfit.name == "" {
			return p
		}
		t.o.Log.WarnContext(ctx, "a module is not imported in advance", slog.String("module", unfit.name), slog.String("reason", unfit.reason))
		t.skip(unfit)
		*left = slices.DeleteFunc(*left, func(name string) bool { return name == unfit.name })
	}
}

// settle makes p the process to fork from.
func (t *Template) settle(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.full, t.loaded, t.skipped = p, p.loaded, maps.Clone(t.unfit)
	maps.Copy(t.skipped, p.skipped)
	close(t.settled)
}

// unsettle says that there is no process with modules any more.
func (t *Template) unsettle(p *process) {
	p.end()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.full, t.loaded, t.settled = nil, nil, make(chan struct{})
}

func (t *Template) skip(m misfit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unfit[m.name] = m.reason
}

// misfits are modules that were left out, as lines for sandboxes to tell.
func (t *Template) misfits() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for name, reason := range t.unfit {
		fmt.Fprintf(&b, "\nskipped %s %s", name, reason)
	}
	return b.String()
}

// A misfit is a module that cannot be in a template, and why.
type misfit struct{ name, reason string }

// load makes a process that has modules imported. If it cannot because of one of
// them, it says of which.
func (t *Template) load(ctx context.Context, modules []string) (*process, misfit) {
	ours, theirs, err := pair()
	if err != nil {
		t.o.Log.WarnContext(ctx, "make a template", slog.Any("error", err))
		return nil, misfit{}
	}
	words := append([]string{"import"}, modules...)
	err = t.plain.send(strings.Join(words, " ")+t.misfits(), theirs)
	_ = theirs.Close()
	p := newProcess(ours)
	if err != nil {
		p.end()
		return nil, misfit{}
	}
	unfit, err := p.imports(ctx, t.o.Patience)
	if err == nil {
		return p, misfit{}
	}
	p.end()
	if ctx.Err() == nil && unfit.name == "" {
		t.o.Log.WarnContext(ctx, "make a template", slog.Any("error", err))
	}
	return nil, unfit
}

// imports follows what a process imports until it is ready. When that fails by
// the doing of a module, it says of which.
func (p *process) imports(ctx context.Context, patience time.Duration) (unfit misfit, err error) {
	current := ""
	for {
		message, err := p.importing(ctx, patience)
		word, rest, _ := strings.Cut(message, " ")
		name, detail, _ := strings.Cut(rest, " ")
		switch {
		case ctx.Err() != nil:
			return misfit{}, context.Cause(ctx)
		case errors.Is(err, errSlow):
			return misfit{current, fmt.Sprintf("its import did not end within %v", patience)}, err
		case err != nil:
			return misfit{current, "its import ends the process"}, err
		case word == "importing":
			current = name
		case word == "loaded":
			p.loaded, current = append(p.loaded, name), ""
		case word == "skipped":
			p.skipped[name], current = detail, ""
		case word == "unfit":
			return misfit{name, detail}, errors.New("a module is unfit")
		case word == "ready":
			return misfit{}, nil
		default:
			return misfit{}, fmt.Errorf("a template said %.100q", message)
		}
	}
}

var errSlow = errors.New("an import takes too long")

// importing returns what p says next, within the time for one module.
func (p *process) importing(ctx context.Context, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	defer cancel()
	return p.next(ctx)
}

// killed ends the process that a pidfd is of.
func killed(pidfd int) { _ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) }
