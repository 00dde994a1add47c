// Package pydriver is the Python side of a sandbox and the way to speak with
// it: a parent process, embedded here as source, that forks a fresh child for
// each call. The parent is ours; what its children write is not.
package pydriver

import (
	"context"
	_ "embed" // the parent's source
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox"
)

// Source is the program that templates and first processes of sandboxes run:
// without arguments it is a parent, with TemplateArgument a template.
var Source = startPart + parentPart + childPart + templatePart + mainPart

// TemplateArgument is what makes the program a template.
const TemplateArgument = "template"

// The parts of the program.
var (
	//go:embed start.py
	startPart string
	//go:embed parent.py
	parentPart string
	//go:embed child.py
	childPart string
	//go:embed template.py
	templatePart string
	//go:embed main.py
	mainPart string
)

// Bounds of waiting for a parent, which does nothing long itself.
const (
	readyTimeout = 20 * time.Second
	// stopTimeout is for a call to be over once its child was told to stop: half a
	// second of grace, then the end of up to a thousand processes, with which the
	// parent shares its processors. Then the sandbox is ended from outside.
	stopTimeout = 4 * time.Second
	// endTimeout is for what ends a sandbox.
	endTimeout = 10 * time.Second
	// beginTimeout is for a call to begin, which takes a fork.
	beginTimeout = time.Minute
	// maxMessage holds the longest that a parent says: why a module was skipped.
	maxMessage = 4 << 10
)

// A Process is a sandbox with its Python parent, ready for calls. Run is for
// one goroutine at a time, the other methods for several.
type Process struct {
	container sandbox.Container
	conn      *net.UnixConn
	spec      sandbox.Spec
	preload   int           // how many modules it was asked to import
	ready     chan string   // the parent's version
	begun     chan struct{} // that a call's child was made
	done      chan int      // wait statuses
	gone      chan struct{}

	mu      sync.Mutex
	version string            // mu
	loaded  []string          // mu; modules that children have at once
	skipped map[string]string // mu; modules that could not be imported, and why
	kills   uint64            // mu; OOM kills seen so far
}

// Start makes a sandbox of runner and waits until its parent is ready. It has the
// modules of preload imported if the runner had them. After an error nothing is
// left behind.
func Start(ctx context.Context, runner sandbox.Runner, spec sandbox.Spec, preload []string) (*Process, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout,
		fault.New(fault.Unavailable, "the sandbox did not start within %v; cloche doctor says what may be wrong", readyTimeout))
	defer cancel()
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	spec.Preload = preload
	container, err := runner.Start(ctx, spec, theirs)
	_ = theirs.Close()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p := &Process{
		container: container, conn: conn, spec: spec, preload: len(preload),
		ready: make(chan string, 1), begun: make(chan struct{}, 1), done: make(chan int, 1), gone: make(chan struct{}), skipped: map[string]string{},
	}
	go p.read()
	select {
	case v := <-p.ready:
		p.mu.Lock()
		p.version = v
		p.mu.Unlock()
	case <-p.gone:
		err = fault.New(fault.Unavailable, "Python ended at its start in the sandbox; cloche doctor says what may be wrong")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Destroy(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// socketPair returns both ends of a SOCK_SEQPACKET pair.
func socketPair() (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "parent"), os.NewFile(uintptr(pair[1]), "server")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return c.(*net.UnixConn), theirs, nil
}

// Spec returns what the sandbox was asked to be.
func (p *Process) Spec() sandbox.Spec { return p.spec }

// Gone is closed when the sandbox has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Modules returns the version of Python, the modules that are imported already
// and those that could not be, with the reason.
func (p *Process) Modules() (version string, loaded []string, skipped map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, slices.Clone(p.loaded), maps.Clone(p.skipped)
}

// Complete says whether the sandbox has the modules that it was to have imported
// in advance, but for those that cannot be.
func (p *Process) Complete() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.loaded)+len(p.skipped) >= p.preload
}

// Refresh makes the sandbox as it was before any call. It is for between calls.
func (p *Process) Refresh(ctx context.Context) error {
	if err := p.container.Refresh(ctx); err != nil {
		return err
	}
	// What memory ended in an earlier call, unseen by its end, is not to be taken
	// for the end of the next.
	var e sandbox.Exit
	p.memory(ctx, &e)
	return nil
}

// Destroy ends the sandbox and what runs in it. Destroying twice is no error.
func (p *Process) Destroy(ctx context.Context) error {
	err := p.container.Destroy(ctx)
	_ = p.conn.CloseRead()
	_ = p.conn.CloseWrite()
	<-p.gone
	if cerr := p.conn.Close(); !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// read takes the parent's messages until it is gone, or says what our parent
// never does.
func (p *Process) read() {
	defer close(p.gone)
	buf := make([]byte, maxMessage)
	for {
		n, err := p.conn.Read(buf)
		if err != nil || n == 0 || !p.take(string(buf[:n])) {
			return
		}
	}
}

// take takes one message; false if it is none of our parent's. It never waits.
func (p *Process) take(message string) bool {
	word, rest, _ := strings.Cut(message, " ")
	switch word {
	case "ready":
		select {
		case p.ready <- rest:
			return true
		default:
			return false
		}
	case "started":
		select {
		case p.begun <- struct{}{}:
			return true
		default:
			return false
		}
	case "done":
		status, err := strconv.Atoi(rest)
		if err != nil {
			return false
		}
		select {
		case p.done <- status:
			return true
		default:
			return false
		}
	case "loaded", "skipped":
		name, detail, _ := strings.Cut(rest, " ")
		p.mu.Lock()
		defer p.mu.Unlock()
		_, twice := p.skipped[name]
		switch {
		case twice || slices.Contains(p.loaded, name):
		case len(p.loaded)+len(p.skipped) >= p.preload:
			return false
		case word == "loaded":
			p.loaded = append(p.loaded, name)
		default:
			p.skipped[name] = detail
		}
		return true
	}
	return false
}

// send sends a message with descriptors.
func (p *Process) send(text string, fds []int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := p.conn.WriteMsgUnix([]byte(text), rights, nil)
	return err
}

// Run runs code in a fresh process and copies what it writes to stdout and
// stderr, each written by one goroutine that has ended when Run returns. When
// ctx ends the code is told to stop and half a second later killed. When Run
// returns nothing of the call runs any more. An error says that the code was
// not run. An Exit whose Lost is not empty says that the sandbox is no more.
func (p *Process) Run(ctx context.Context, code string, stdout, stderr io.Writer) (sandbox.Exit, error) {
	return p.RunFor(ctx, 0, code, stdout, stderr)
}

// RunFor is Run for code that may run for so long, counted from its beginning;
// zero stands for as long as ctx.
func (p *Process) RunFor(ctx context.Context, timeout time.Duration, code string, stdout, stderr io.Writer) (sandbox.Exit, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Exit{}, context.Cause(ctx)
	}
	if err := p.idle(ctx); err != nil {
		return sandbox.Exit{}, err
	}
	text, err := memoryFile(code)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("pass code: %w", err)
	}
	defer text.Close()
	var copies sync.WaitGroup
	outputs := [2]*output{}
	for i, w := range []io.Writer{stdout, stderr} {
		if outputs[i], err = newOutput(&copies, w); err != nil {
			if i > 0 {
				outputs[0].handedOver()
				copies.Wait()
			}
			return sandbox.Exit{}, err
		}
	}
	p.wake(ctx)
	err = p.send("run", []int{int(text.Fd()), int(outputs[0].write.Fd()), int(outputs[1].write.Fd())})
	for _, o := range outputs {
		o.handedOver()
	}
	if err != nil {
		copies.Wait()
		return sandbox.Exit{}, fault.Wrap(fault.Gone, err, "the sandbox ended before the call; call again")
	}
	exit := p.watch(ctx, timeout)
	for _, o := range outputs {
		o.endBy(time.Now().Add(endTimeout)) // no writer is left; this is for what ought not to be
	}
	copies.Wait()
	return exit, nil
}

// wake tells who watches the sandbox, if there is somebody, that a call begins.
func (p *Process) wake(ctx context.Context) {
	if w, ok := p.container.(sandbox.Waker); ok {
		_ = w.Wake(ctx) // it fails when the sandbox is gone, which the call finds too
	}
}

// idle returns an error if the sandbox has ended, or must: because its parent
// says that a call is over although none runs.
func (p *Process) idle(ctx context.Context) error {
	select {
	case <-p.done:
		_ = p.lost(ctx, "its first process is not ours any more")
	case <-p.gone:
	default:
		return nil
	}
	return fault.New(fault.Gone, "the sandbox ended before the call; call again")
}

// watch waits for the call to begin and to end, and ends it after timeout.
func (p *Process) watch(ctx context.Context, timeout time.Duration) sandbox.Exit {
	limit := time.NewTimer(beginTimeout)
	defer limit.Stop()
	select {
	case <-p.begun:
	case <-ctx.Done(): // wait sees that too
	case <-p.gone:
	case <-limit.C:
		return p.lost(ctx, "it did not begin the call")
	}
	start := time.Now()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fault.New(fault.Timeout, "the call ran past its limit"))
		defer cancel()
	}
	exit := p.wait(ctx)
	exit.Duration = time.Since(start)
	select {
	case <-p.begun: // of a call that was stopped before
	default:
	}
	return exit
}

// wait waits for the end of the running call.
func (p *Process) wait(ctx context.Context) sandbox.Exit {
	select {
	case status := <-p.done:
		return p.exit(ctx, status)
	case <-p.gone:
		return p.lost(ctx, "its first process ended")
	case <-ctx.Done():
	}
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	if err := p.send("stop", nil); err != nil {
		return p.lost(ctx, "its first process ended")
	}
	select {
	case status := <-p.done:
		exit := p.exit(ctx, status)
		return ended(ctx, exit)
	case <-p.gone:
		return ended(ctx, p.lost(ctx, "its first process ended"))
	case <-limit.C:
		return ended(ctx, p.lost(ctx, "what ran in it could not be ended"))
	}
}
