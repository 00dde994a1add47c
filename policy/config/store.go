package config

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A Store holds the policy in force and replaces it when the file changes. A
// file that is bad or gone leaves the older policy in force. A Store may be used
// from several goroutines.
type Store struct {
	path string
	log  *slog.Logger

	// mu is held while the file is read, so that a later Reload wins.
	mu    sync.Mutex
	state atomic.Pointer[state] // written with mu held
}

// A state is what a Store knows. It never changes.
type state struct {
	config Config
	digest string
	err    error // of the file as it was read last
}

// Open loads the file at path, which must be good; "" is the default policy. The
// Store holds nothing that has to be closed.
func Open(path string, log *slog.Logger) (*Store, error) {
	c, err := Load(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, log: log}
	s.state.Store(&state{config: c, digest: c.Digest()})
	return s, nil
}

// Current returns the policy in force. It does not change; ask again for a newer
// one.
func (s *Store) Current() *Config { return &s.state.Load().config }

// Path returns the path of the file, "" if there is none.
func (s *Store) Path() string { return s.path }

// LastError returns what is wrong with the file, as it was read last, nil if
// nothing is. While it is not nil, Current is older than the file.
func (s *Store) LastError() error { return s.state.Load().err }

// Reload reads the file again and logs one line with the outcome. After an error
// the older policy is in force.
func (s *Store) Reload(ctx context.Context) error { return s.reload(ctx, true) }

// reload is Reload; with loud false it logs no outcome that was there before.
func (s *Store) reload(ctx context.Context, loud bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.state.Load()
	c, err := Load(s.path)
	if err != nil {
		s.state.Store(&state{config: old.config, digest: old.digest, err: err})
		if loud || old.err == nil || old.err.Error() != err.Error() {
			s.log.ErrorContext(ctx, "configuration not taken; the older one is in force",
				slog.String("digest", old.digest), slog.String("error", err.Error()))
		}
		return err
	}
	now := &state{config: c, digest: c.Digest()}
	s.state.Store(now)
	if loud || old.err != nil || old.digest != now.digest {
		s.log.InfoContext(ctx, "configuration taken", slog.String("path", s.path), slog.String("digest", now.digest))
	}
	return nil
}

// settle is how long Watch waits after a change for those that belong to it: an
// editor writes in several steps.
const settle = 100 * time.Millisecond

// Watch reloads when the file changes, appears or vanishes, and when hup gets a
// signal, until ctx ends. It watches the folder at path: what happens behind a
// symbolic link elsewhere, or in a folder made anew, takes a signal. If the
// folder cannot be watched, Watch logs that and serves hup alone.
func (s *Store) Watch(ctx context.Context, hup <-chan os.Signal) {
	if s.path == "" {
		s.serve(ctx, nil, nil, hup)
		return
	}
	w, err := s.watcher()
	if err != nil {
		s.log.WarnContext(ctx, "configuration not watched; after a change send SIGHUP", slog.String("error", err.Error()))
		s.serve(ctx, nil, nil, hup)
		return
	}
	defer w.Close()
	// What changed between Open and now was not seen.
	_ = s.reload(ctx, false) // logged
	s.serve(ctx, w.Events, w.Errors, hup)
}

// watcher returns a watcher of the folder with the file: a file that is replaced
// is another one.
func (s *Store) watcher() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch the configuration: %w", err)
	}
	if err := w.Add(filepath.Dir(s.path)); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch the configuration: %w", err)
	}
	return w, nil
}

// serve is Watch with its sources. All events count, whatever their name, for a
// link on the way to the file may be what changed; a change that changes nothing
// is not logged.
func (s *Store) serve(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, hup <-chan os.Signal) {
	timer := time.NewTimer(settle)
	timer.Stop()
	defer timer.Stop()
	waiting := false
	// The timer is not set anew by later changes: a busy folder must not put a
	// reload off for ever.
	change := func() {
		if !waiting {
			waiting = true
			timer.Reset(settle)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			change()
		case _, ok := <-errs: // mostly: events were lost
			if !ok {
				errs = nil
				continue
			}
			change()
		case <-timer.C:
			waiting = false
			_ = s.reload(ctx, false) // logged
		case _, ok := <-hup:
			if !ok {
				hup = nil
				continue
			}
			_ = s.reload(ctx, true) // logged
		}
	}
}
