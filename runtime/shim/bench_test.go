package shim

import (
	"bytes"
	"context"
	"log/slog"
	"os/exec"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/rootfs"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

const onePlusOne = "print(1+1)"

// BenchmarkBare is the peer of the others: Python alone, with nothing around it.
func BenchmarkBare(b *testing.B) {
	need.Python(b)
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), rootfs.Python, "-c", onePlusOne)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
		if out, err := cmd.Output(); err != nil || string(out) != "2\n" {
			b.Fatalf("bare Python printed %q, %v", out, err)
		}
	}
}

// BenchmarkCall is a call in a warm sandbox; what cleans up for the next one is
// told apart, since it is done while nobody waits.
func BenchmarkCall(b *testing.B) {
	for _, bb := range []struct {
		name    string
		preload []string
		refresh bool
	}{
		{name: "alone"},
		{name: "and refresh", refresh: true},
		{name: "preloaded", preload: []string{"numpy", "pandas", "matplotlib.pyplot"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			need.Modules(b, bb.preload...)
			p := sandboxtest.Start(b, newRunner(b), sandboxtest.Spec(), bb.preload...).Process
			printsTwo(b, p)
			for b.Loop() {
				printsTwo(b, p)
				if bb.refresh {
					if err := p.Refresh(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func printsTwo(b *testing.B, p *pydriver.Process) {
	b.Helper()
	var out, errs bytes.Buffer
	exit, err := p.Run(b.Context(), onePlusOne, &out, &errs)
	if err != nil || exit.Code != 0 || out.String() != "2\n" {
		b.Fatalf("Run = %+v, %v, printed %q and %q", exit, err, out.String(), errs.String())
	}
}

// BenchmarkStart is a sandbox from nothing to ready, and its end.
func BenchmarkStart(b *testing.B) {
	for _, bb := range []struct {
		name    string
		preload []string
	}{
		{name: "plain"},
		{name: "preloaded", preload: []string{"numpy", "pandas", "matplotlib.pyplot"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			need.Modules(b, bb.preload...)
			r := newRunner(b)
			sandboxtest.Start(b, r, sandboxtest.Spec(), bb.preload...) // now there is a template
			for b.Loop() {
				p, err := pydriver.Start(b.Context(), r, sandboxtest.Spec(), bb.preload)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Destroy(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTake is what a conversation waits for a sandbox that is warm.
func BenchmarkTake(b *testing.B) {
	r := newRunner(b)
	kind := pool.Kind{Digest: "one", Spec: sandboxtest.Spec()}
	p := pool.New(b.Context(), pool.Options{Runner: r, Log: slog.New(slog.DiscardHandler)})
	defer p.Close(context.WithoutCancel(b.Context()))
	p.Keep(b.Context(), kind, 1)
	for b.Loop() {
		b.StopTimer()
		for n, _ := p.Warm(); n == 0; n, _ = p.Warm() {
			<-time.After(time.Millisecond)
		}
		b.StartTimer()
		s, err := p.Take(b.Context(), kind)
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkRefresh is what is done to a sandbox between two calls.
func BenchmarkRefresh(b *testing.B) {
	p, err := pydriver.Start(b.Context(), newRunner(b), sandboxtest.Spec(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Destroy(b.Context()) }()
	for b.Loop() {
		if err := p.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
