package sandboxtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/sandbox"
)

// A Fake is a Runner that makes no sandboxes: a goroutine plays the Python
// parent of each. It is for tests of what uses sandboxes. It may be used from
// several goroutines; its fields are set before that.
type Fake struct {
	// Call plays a call: it gets the code and what it may write to, and returns
	// a wait status. stop is closed when the call is told to end. Nil is a call
	// that writes its code to stdout.
	Call func(b *FakeBox, code string, stdout, stderr io.Writer, stop <-chan struct{}) int
	// Start, if it is not nil, is asked before a sandbox is started.
	StartErr func(ctx context.Context, spec sandbox.Spec) error
	// Imports, if it is not nil, returns what the parent says of modules before it
	// is ready.
	Imports func(spec sandbox.Spec) []string
	// RefreshErr, if it is not nil, is asked at each Refresh.
	RefreshErr func(b *FakeBox) error

	mu    sync.Mutex
	boxes []*FakeBox // mu
}

var _ sandbox.Runner = (*Fake)(nil)

// A FakeBox is a sandbox of a Fake.
type FakeBox struct {
	// Number counts the sandboxes of its Fake from 1 on.
	Number int
	Spec   sandbox.Spec
	// Destroyed is closed by Destroy, and by Die.
	Destroyed chan struct{}

	fake *Fake
	conn *net.UnixConn
	work sync.WaitGroup
	once sync.Once

	mu        sync.Mutex
	refreshes int // mu
	calls     int // mu
}

// Start implements sandbox.Runner.
func (f *Fake) Start(ctx context.Context, spec sandbox.Spec, control *os.File) (sandbox.Container, error) {
	if f.StartErr != nil {
		if err := f.StartErr(ctx, spec); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	conn, err := net.FileConn(control)
	if err != nil {
		return nil, err
	}
	b := &FakeBox{Spec: spec, Destroyed: make(chan struct{}), fake: f, conn: conn.(*net.UnixConn)}
	f.mu.Lock()
	f.boxes = append(f.boxes, b)
	b.Number = len(f.boxes)
	f.mu.Unlock()
	b.work.Go(b.serve)
	return b, nil
}

// Close implements sandbox.Runner.
func (f *Fake) Close() error {
	for _, b := range f.Boxes() {
		b.Die()
	}
	return nil
}

// Boxes returns all sandboxes that were started, the destroyed ones too.
func (f *Fake) Boxes() []*FakeBox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*FakeBox(nil), f.boxes...)
}

// Live returns the sandboxes that were not destroyed.
func (f *Fake) Live() []*FakeBox {
	var live []*FakeBox
	for _, b := range f.Boxes() {
		select {
		case <-b.Destroyed:
		default:
			live = append(live, b)
		}
	}
	return live
}

// Refresh implements sandbox.Container.
func (b *FakeBox) Refresh(context.Context) error {
	b.mu.Lock()
	b.refreshes++
	b.mu.Unlock()
	if b.fake.RefreshErr != nil {
		return b.fake.RefreshErr(b)
	}
	return nil
}

// Usage implements sandbox.Container.
func (b *FakeBox) Usage(context.Context) (sandbox.Usage, error) { return sandbox.Usage{}, nil }

// Destroy implements sandbox.Container.
func (b *FakeBox) Destroy(context.Context) error {
	b.Die()
	return nil
}

// Die ends the sandbox as if its first process had ended.
func (b *FakeBox) Die() {
	b.once.Do(func() {
		close(b.Destroyed)
		_ = b.conn.Close()
	})
	b.work.Wait()
}

// Counts returns how often the sandbox was refreshed, and how many calls it had.
func (b *FakeBox) Counts() (refreshes, calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refreshes, b.calls
}

// Send sends a message as the parent.
func (b *FakeBox) Send(text string) { _, _ = b.conn.Write([]byte(text)) }

// serve plays the parent.
func (b *FakeBox) serve() {
	if b.fake.Imports != nil {
		for _, message := range b.fake.Imports(b.Spec) {
			b.Send(message)
		}
	}
	b.Send("ready 3.11.2")
	stop := func() {}
	buf, rights := make([]byte, 64<<10), make([]byte, 256)
	for {
		n, nr, _, _, err := b.conn.ReadMsgUnix(buf, rights)
		if err != nil || n == 0 {
			stop()
			return
		}
		switch word, _, _ := strings.Cut(string(buf[:n]), " "); word {
		case "run":
			files, err := passed(rights[:nr])
			if err != nil || len(files) != 3 {
				b.Send("strange message")
				return
			}
			b.Send("started")
			stopped := make(chan struct{})
			stop = sync.OnceFunc(func() { close(stopped) })
			b.work.Go(func() { b.call(files, stopped) })
		case "stop":
			stop()
		}
	}
}

// passed returns the descriptors in a control message.
func passed(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	for _, m := range messages {
		fds, merr := unix.ParseUnixRights(&m)
		err = errors.Join(err, merr)
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, err
}

func (b *FakeBox) call(files []*os.File, stop <-chan struct{}) {
	b.mu.Lock()
	b.calls++
	b.mu.Unlock()
	code, _ := io.ReadAll(io.NewSectionReader(files[0], 0, 64<<20))
	status := 0
	if b.fake.Call != nil {
		status = b.fake.Call(b, string(code), files[1], files[2], stop)
	} else {
		_, _ = files[1].Write(code)
	}
	for _, f := range files {
		_ = f.Close()
	}
	b.Send("done " + strconv.Itoa(status))
}
