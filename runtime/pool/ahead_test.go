package pool

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// importing is a Runner whose sandboxes have modules once done is closed.
type importing struct {
	*sandboxtest.Fake
	done chan struct{}
	err  error
}

func newImporting() *importing {
	r := &importing{done: make(chan struct{})}
	r.Fake = &sandboxtest.Fake{Imports: func(spec sandbox.Spec) []string {
		select {
		case <-r.done:
			return []string{"loaded " + spec.Preload[0] + " 0.5", "skipped " + spec.Preload[1] + " ValueError('x')"}
		default:
			return nil
		}
	}}
	return r
}

func (r *importing) Preloaded(ctx context.Context, _ sandbox.Spec) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestAhead: nobody waits for imports; what was started before they were done is
// replaced, and known to be behind.
func TestAhead(t *testing.T) {
	r := newImporting()
	p := newPool(t, r.Fake, r)
	a := kind("a")
	a.Preload = []string{"good", "bad"}
	p.Keep(t.Context(), a, 2)
	eventually(t, "two are warm", func() bool { n, _ := p.Warm(); return n == 2 })
	early, err := p.Take(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Destroy(t.Context()) }()
	if early.Complete() || p.Behind(a.Digest, early) {
		t.Errorf("complete: %v, behind: %v, while modules are imported", early.Complete(), p.Behind(a.Digest, early))
	}
	if loaded, skipped := p.Modules(); loaded != nil || skipped != nil {
		t.Errorf("Modules() = %v, %v, before they are known", loaded, skipped)
	}
	close(r.done)
	eventually(t, "all that are warm have modules", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := p.shelves[0]
		return len(s.warm) == 2 && s.warm[0].process.Complete() && s.warm[1].process.Complete()
	})
	if !p.Behind(a.Digest, early) {
		t.Error("the one that was taken early is not behind")
	}
	loaded, skipped := p.Modules()
	if diff := cmp.Diff([]any{[]string{"good"}, map[string]string{"bad": "ValueError('x')"}}, []any{loaded, skipped}); diff != "" {
		t.Errorf("Modules() (-want +got):\n%s", diff)
	}
	late, err := p.Take(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Destroy(t.Context()) }()
	if !late.Complete() || p.Behind(a.Digest, late) {
		t.Error("one that was taken late lacks modules")
	}
}

// TestAheadOfOwn: also without a pool, of what callers start.
func TestAheadOfOwn(t *testing.T) {
	r := newImporting()
	p := newPool(t, r.Fake, r)
	a := kind("a")
	a.Preload = []string{"good", "bad"}
	p.Keep(t.Context(), a, 0)
	early, err := p.Take(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Destroy(t.Context()) }()
	close(r.done)
	eventually(t, "it is behind", func() bool { return p.Behind(a.Digest, early) })
}

// TestNeverAhead: where modules cannot be imported in advance nothing is replaced.
func TestNeverAhead(t *testing.T) {
	r := newImporting()
	r.err = errors.New("no")
	r.Imports = nil
	close(r.done)
	p := newPool(t, r.Fake, r)
	a := kind("a")
	a.Preload = []string{"good", "bad"}
	p.Keep(t.Context(), a, 1)
	eventually(t, "one is warm, and nobody waits", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := p.shelves[0]
		return len(s.warm) == 1 && !s.waiting
	})
	taken, err := p.Take(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Destroy(t.Context()) }()
	if p.Behind(a.Digest, taken) {
		t.Error("it is behind what there never is")
	}
}
