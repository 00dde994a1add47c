// Package inventory finds out what an image has to offer: its Python and the
// packages installed for it. It asks in a sandbox of its own, which runs nothing
// else, and once a kind of sandbox.
package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/sandbox"
)

// Bounds of what a sandbox may answer, and in which time.
const (
	maxAnswer   = 1 << 20
	maxPackages = 5000
	maxName     = 100
	timeout     = 30 * time.Second
)

// question prints what is installed, as importlib.metadata sees it.
const question = `
import importlib.metadata, json, sys
packages = sorted({(d.metadata["Name"] or "", d.version or "") for d in importlib.metadata.distributions()})
json.dump({"python": sys.version.split()[0], "packages": packages}, sys.stdout)
`

// An Inventory is what an image has to offer.
type Inventory struct {
	Python   string
	Packages []Package // by name; not nil
}

// A Package is an installed distribution.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Register asks once a kind and remembers. It may be used from several
// goroutines.
type Register struct {
	runner sandbox.Runner

	mu    sync.Mutex
	known map[string]*answer // by the kind's digest; mu
}

// An answer is what a sandbox said, once asked is closed.
type answer struct {
	asked     chan struct{}
	inventory Inventory
	err       error
	// early says that whoever asked did not wait for the answer.
	early bool
}

// New returns a Register that asks in sandboxes of runner.
func New(runner sandbox.Runner) *Register {
	return &Register{runner: runner, known: map[string]*answer{}}
}

// Of returns the inventory of sandboxes of kind. While one caller asks, others
// wait for the same answer; an error is theirs too and is not remembered.
func (r *Register) Of(ctx context.Context, kind pool.Kind) (Inventory, error) {
	for {
		r.mu.Lock()
		a := r.known[kind.Digest]
		if a == nil {
			a = &answer{asked: make(chan struct{})}
			r.known[kind.Digest] = a
			r.mu.Unlock()
			r.ask(ctx, kind, a)
			return a.inventory, a.err
		}
		r.mu.Unlock()
		select {
		case <-a.asked:
		case <-ctx.Done():
			return Inventory{}, context.Cause(ctx)
		}
		if !a.early {
			return a.inventory, a.err
		}
	}
}

// ask fills in a, and forgets it after an error.
func (r *Register) ask(ctx context.Context, kind pool.Kind, a *answer) {
	defer close(a.asked)
	a.inventory, a.err = ask(ctx, r.runner, kind.Spec)
	if a.err == nil {
		return
	}
	a.err, a.early = fmt.Errorf("ask for installed packages: %w", a.err), ctx.Err() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, kind.Digest)
}

func ask(ctx context.Context, runner sandbox.Runner, spec sandbox.Spec) (inv Inventory, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, err := pydriver.Start(ctx, runner, spec, nil)
	if err != nil {
		return Inventory{}, err
	}
	defer func() {
		if derr := p.Destroy(context.WithoutCancel(ctx)); err == nil {
			err = derr
		}
	}()
	var answer limited
	exit, err := p.Run(ctx, question, &answer, io.Discard)
	if err != nil {
		return Inventory{}, err
	}
	if exit.Code != 0 || exit.Signal != 0 || exit.TimedOut || exit.Stopped || exit.OutOfMemory || exit.Lost != "" {
		return Inventory{}, fmt.Errorf("python ended with %+v", exit)
	}
	return parse(answer.buf.Bytes())
}

// parse reads the answer, which comes out of a sandbox.
func parse(answer []byte) (Inventory, error) {
	var a struct {
		Python   string      `json:"python"`
		Packages [][2]string `json:"packages"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return Inventory{}, fmt.Errorf("read the answer: %w", err)
	}
	inv := Inventory{Python: plain(a.Python), Packages: []Package{}}
	if inv.Python == "" {
		return Inventory{}, errors.New("the answer has no version of Python")
	}
	for _, p := range a.Packages[:min(len(a.Packages), maxPackages)] {
		if name := plain(p[0]); name != "" {
			inv.Packages = append(inv.Packages, Package{Name: name, Version: plain(p[1])})
		}
	}
	slices.SortFunc(inv.Packages, func(a, b Package) int {
		return strings.Compare(strings.ToLower(a.Name)+"\x00"+a.Name, strings.ToLower(b.Name)+"\x00"+b.Name)
	})
	return inv, nil
}

// plain returns s if it is short and printable, else "".
func plain(s string) string {
	if len(s) > maxName || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return s
}

// limited keeps the first maxAnswer bytes.
type limited struct{ buf bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.buf.Write(p[:min(len(p), maxAnswer-l.buf.Len())])
	return len(p), nil
}
