package pool

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

// TestKinds: what is warm of one kind is never handed out for another, and stays
// warm for a while when another is asked for.
func TestKinds(t *testing.T) {
	fake := new(sandboxtest.Fake)
	p := newPool(t, fake, fake)
	a, b := kind("a"), kind("b")
	p.Keep(t.Context(), a, 2)
	warms(t, p, 2)
	p.Keep(t.Context(), b, 1)
	warms(t, p, 3)
	take(t, p, b)
	warms(t, p, 3)
	// A call that still follows the old policy gets one of that.
	_, warm := p.Warm()
	take(t, p, a)
	warms(t, p, 3)
	if n, s := p.Warm(); n != 3 || s != warm || s.Spec().Image != "b" {
		t.Errorf("Warm() = %d, %p, want 3, and the one of b of before, %p", n, s, warm)
	}
	take(t, p, kind("c"))
	if n, _ := p.Warm(); n != 3 {
		t.Errorf("%d are warm when one of another kind was taken, want 3", n)
	}
}

// TestKindsAskedForNoMore are cleared away, all but the last; and never are there
// more kinds than may be.
func TestKindsAskedForNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(broken) // starts nothing: what is kept shows by what it tries
		p := New(t.Context(), Options{Runner: r, Log: slog.New(slog.DiscardHandler)})
		defer p.Close(t.Context())
		names := func() string {
			p.mu.Lock()
			defer p.mu.Unlock()
			var all []string
			for _, s := range p.shelves {
				all = append(all, s.kind.Digest)
			}
			return strings.Join(all, "")
		}
		want := func(what, kinds string) {
			t.Helper()
			synctest.Wait()
			if got := names(); got != kinds {
				t.Errorf("%s: kept are %q, want %q", what, got, kinds)
			}
		}
		for _, k := range []string{"a", "b", "c", "d", "b"} {
			p.Keep(t.Context(), kind(k), 1)
		}
		want("as many as may be", "acdb")
		p.Keep(t.Context(), kind("e"), 1)
		want("one more", "cdbe")
		<-time.After(kept / 2)
		p.Keep(t.Context(), kind("d"), 1)
		<-time.After(kept/2 - 1)
		want("just before the end of the time", "cbed")
		<-time.After(1)
		want("at the end of the time", "d")
		<-time.After(24 * time.Hour)
		want("the last", "d")
	})
}

// TestKindChangesWhileStarting: the one that starts is of the kind that it was
// started for.
func TestKindChangesWhileStarting(t *testing.T) {
	starting, goOn := make(chan struct{}), make(chan struct{})
	fake := &sandboxtest.Fake{StartErr: func(_ context.Context, spec sandbox.Spec) error {
		if spec.Image == "a" {
			close(starting)
			<-goOn
		}
		return nil
	}}
	p := newPool(t, fake, fake)
	p.Keep(t.Context(), kind("a"), 1)
	<-starting
	p.Keep(t.Context(), kind("b"), 1)
	p.Keep(t.Context(), kind("a"), 0)
	p.Keep(t.Context(), kind("b"), 1)
	close(goOn)
	warms(t, p, 1)
	if _, s := p.Warm(); s.Spec().Image != "b" {
		t.Errorf("a sandbox of %s is warm, want one of b", s.Spec().Image)
	}
	eventually(t, "the old one is gone", func() bool { return len(fake.Live()) == 1 })
}
