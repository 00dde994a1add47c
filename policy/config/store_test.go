package config

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// lines is a log whose lines a test waits for.
type lines chan string

func newLines() lines { return make(lines, 100) }

func (l lines) logger() *slog.Logger { return slog.New(l) }

func (lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l lines) WithGroup(string) slog.Handler          { return l }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	l <- r.Level.String() + " " + r.Message
	return nil
}

const (
	taken    = "INFO configuration taken"
	notTaken = "ERROR configuration not taken; the older one is in force"
)

// want waits for the next line.
func (l lines) want(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-l:
		if got != want {
			t.Fatalf("log line %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("no log line, want %q", want)
	}
}

// none wants no line to be there.
func (l lines) none(t *testing.T) {
	t.Helper()
	select {
	case got := <-l:
		t.Fatalf("log line %q, want none", got)
	default:
	}
}

// open returns a Store of a file in which warm is 7.
func open(t *testing.T) (*Store, string, lines) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.toml")
	write(t, path, "pool.warm = 7")
	log := newLines()
	s, err := Open(path, log.logger())
	if err != nil {
		t.Fatalf("Open = %v, want nil", err)
	}
	return s, path, log
}

func wantWarm(t *testing.T, s *Store, want int) {
	t.Helper()
	if got := s.Current().Pool.Warm; got != want {
		t.Errorf("Current().Pool.Warm = %d, want %d", got, want)
	}
}

func TestOpen(t *testing.T) {
	s, path, log := open(t)
	wantWarm(t, s, 7)
	if s.Path() != path || s.LastError() != nil {
		t.Errorf("Path() = %q, LastError() = %v, want %q, nil", s.Path(), s.LastError(), path)
	}
	log.none(t)
	s, err := Open("", log.logger())
	if err != nil {
		t.Fatalf(`Open("") = %v, want nil`, err)
	}
	wantWarm(t, s, 1)
	write(t, path, "x = 1")
	if s, err := Open(path, log.logger()); err == nil || s != nil {
		t.Errorf("Open of a bad file = %v, %v, want an error", s, err)
	}
}

func TestReload(t *testing.T) {
	s, path, log := open(t)
	before := s.Current()

	write(t, path, "pool.warm = 8")
	if err := s.Reload(t.Context()); err != nil {
		t.Errorf("Reload = %v, want nil", err)
	}
	log.want(t, taken)
	wantWarm(t, s, 8)
	if before.Pool.Warm != 7 {
		t.Error("Reload changed what Current returned before")
	}

	write(t, path, "pool.warm = 99")
	err := s.Reload(t.Context())
	if e, ok := errors.AsType[*Error](err); !ok || len(e.Problems) != 1 {
		t.Errorf("Reload of a bad file = %v, want its problem", err)
	}
	log.want(t, notTaken)
	wantWarm(t, s, 8)
	if got := s.LastError(); got == nil || got.Error() != err.Error() {
		t.Errorf("LastError() = %v, want %v", got, err)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Reload without a file = %v, want %v", err, fs.ErrNotExist)
	}
	log.want(t, notTaken)
	wantWarm(t, s, 8)

	write(t, path, "")
	if err := s.Reload(t.Context()); err != nil || s.LastError() != nil {
		t.Errorf("Reload = %v, then LastError() = %v, want nil, nil", err, s.LastError())
	}
	log.want(t, taken)
	wantWarm(t, s, 1)
	log.none(t)
}

// watch runs f until the test ends.
func watch(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestWatch(t *testing.T) {
	s, path, log := open(t)
	hup := make(chan os.Signal)
	write(t, path, "pool.warm = 8") // after Open, before Watch
	watch(t, func(ctx context.Context) { s.Watch(ctx, hup) })
	log.want(t, taken)
	wantWarm(t, s, 8)

	for _, step := range []struct {
		name string
		do   func() error
		line string
		warm int
	}{
		{"written in place", func() error { return os.WriteFile(path, []byte("pool.warm = 9"), 0o600) }, taken, 9},
		{"renamed into place", func() error {
			write(t, path+"~", "pool.warm = 10")
			return os.Rename(path+"~", path)
		}, taken, 10},
		{"made writable", func() error { return os.Chmod(path, 0o666) }, notTaken, 10},
		{"mended", func() error { return os.Chmod(path, 0o600) }, taken, 10},
		{"removed", func() error { return os.Remove(path) }, notTaken, 10},
		{"there again", func() error { return os.WriteFile(path, []byte("pool.warm = 11"), 0o600) }, taken, 11},
		{"now a link", func() error {
			write(t, path+".new", "pool.warm = 12")
			return errors.Join(os.Symlink("c.toml.new", path+"~"), os.Rename(path+"~", path))
		}, taken, 12},
		{"bad", func() error { return os.WriteFile(path, []byte("pool.warm = "), 0o600) }, notTaken, 12},
		{"good", func() error { return os.WriteFile(path, []byte("pool.warm = 13"), 0o600) }, taken, 13},
		{"signal", func() error { hup <- syscall.SIGHUP; return nil }, taken, 13},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		t.Log(step.name)
		log.want(t, step.line)
		wantWarm(t, s, step.warm)
	}
}

func TestWatchSignalAlone(t *testing.T) {
	log := newLines()
	s, err := Open("", log.logger())
	if err != nil {
		t.Fatalf(`Open("") = %v, want nil`, err)
	}
	hup := make(chan os.Signal)
	watch(t, func(ctx context.Context) { s.Watch(ctx, hup) })
	hup <- syscall.SIGHUP
	log.want(t, taken)
	wantWarm(t, s, 1)
}

func TestWatchWithoutFolder(t *testing.T) {
	s, path, log := open(t)
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	hup := make(chan os.Signal)
	watch(t, func(ctx context.Context) { s.Watch(ctx, hup) })
	log.want(t, "WARN configuration not watched; after a change send SIGHUP")
	hup <- syscall.SIGHUP
	log.want(t, notTaken)
	wantWarm(t, s, 7)
}

// pass lets time pass in a bubble, and what it sets off happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestServeSettles has changes at times of its own.
func TestServeSettles(t *testing.T) {
	s, path, log := open(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events, errs := make(chan fsnotify.Event), make(chan error)
		var wg sync.WaitGroup
		wg.Go(func() { s.serve(ctx, events, errs, nil) })

		// A burst is one reload, at its settle.
		write(t, path, "pool.warm = ")
		events <- fsnotify.Event{}
		write(t, path, "pool.warm = 8")
		events <- fsnotify.Event{}
		pass(settle - 1)
		log.none(t)
		pass(1)
		log.want(t, taken)
		log.none(t)

		// Changes without an end do not put it off.
		write(t, path, "pool.warm = 9")
		for range 10 {
			events <- fsnotify.Event{}
			pass(settle / 10)
		}
		log.want(t, taken)

		// The same again is not told again, nor is the same mistake.
		errs <- fsnotify.ErrEventOverflow
		pass(settle)
		log.none(t)
		write(t, path, "pool.warm = -1")
		for range 3 {
			events <- fsnotify.Event{}
			pass(settle)
		}
		log.want(t, notTaken)
		log.none(t)
		wantWarm(t, s, 9)

		// A watcher that ended does not make serve spin.
		close(events)
		close(errs)
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

func TestStoreTogether(t *testing.T) {
	s, _, log := open(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if err := s.Reload(t.Context()); err != nil {
					t.Errorf("Reload = %v, want nil", err)
				}
				if w := s.Current().Pool.Warm; w != 7 || s.LastError() != nil {
					t.Errorf("Current().Pool.Warm = %d, LastError() = %v, want 7, nil", w, s.LastError())
				}
			}
		})
	}
	wg.Wait()
	if got := len(log); got != 80 {
		t.Errorf("80 times Reload logged %d lines, want 80", got)
	}
}
