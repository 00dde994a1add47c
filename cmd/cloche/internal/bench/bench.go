// Package bench measures what calls cost on this host: each thing through the
// real server, beside what it is compared with, the two in turns. It works with
// a configuration and a data directory of its own, and leaves nothing behind.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Options say what is measured, and with what.
type Options struct {
	// Cloche and Shim are the program files of the server and of its shim.
	Cloche, Shim string
	// Version is that of the server.
	Version string
	// Sweep removes what a server that died has left.
	Sweep func(name string) error
	// Runc is the program file of runc; "" looks for one.
	Runc string
	// Full takes the time for many rounds, and for the rows that are large.
	Full bool
	// Rounds is how often each thing is measured; 0 leaves it to the row.
	Rounds int
	// Rows are the names of those that are wanted, of Names; none stands for all.
	Rows []string
	// Progress is told what begins.
	Progress func(text string)
}

// Bounds of the time that all of it may take, and one row of it.
const (
	quickLimit, quickRowLimit = 15 * time.Minute, 4 * time.Minute
	fullLimit, fullRowLimit   = 90 * time.Minute, 20 * time.Minute
)

// Names returns the names of all rows, in their order.
func Names() (names []string) {
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

// MaxRounds bounds Options.Rounds.
const MaxRounds = 10_000

// Known returns an error if one of names is none of a row.
func Known(names []string) error {
	for _, n := range names {
		if !slices.Contains(Names(), n) {
			return fmt.Errorf("no row %q; there are %s", n, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// A bench is what rows measure with.
type bench struct {
	o    Options
	dir  string // for all that is made; other users may pass through it
	host Host
	runc string // its program file, "" if there is none
	// unimportable says which of the libraries are not there, "" if none is missing.
	unimportable string
}

// Run measures the rows, one after the other. What goes wrong in one is told in
// its line. An error means that there is no report: because ctx ended, or
// because nothing could be begun.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	dir, err := os.MkdirTemp("", "cloche-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer func() {
		if rerr := os.RemoveAll(dir); rerr != nil {
			report, err = nil, errors.Join(err, fmt.Errorf("clear up: %w", rerr))
		}
	}()
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	all, one := quickLimit, quickRowLimit
	if o.Full {
		all, one = fullLimit, fullRowLimit
	}
	limited, cancel := context.WithTimeoutCause(ctx, all, fmt.Errorf("all of it may take %v", all))
	defer cancel()
	b := &bench{o: o, dir: dir}
	if err := b.look(limited); err != nil {
		return nil, err
	}
	report = &Report{Host: b.host, Full: o.Full}
	for _, r := range rows {
		if len(o.Rows) > 0 && !slices.Contains(o.Rows, r.name) {
			continue
		}
		report.Rows = append(report.Rows, b.line(limited, &r, one))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return report, nil
}

// A row is one line of the report, before it is measured.
type row struct {
	name string // by which it is asked for
	what string // what is measured; %s stands for how many conversations
	peer string // what stands beside it, "" for nothing
	// How much is measured. A quick one of zero leaves the row to a full run.
	quick, full scale
	bar         Bar
	// without says why the row is left out on this host, "" if it is not; nil: it
	// never is.
	without func(b *bench) string
	measure func(ctx context.Context, b *bench, s scale) (outcome, error)
}

// A scale is how much is measured: so many rounds, of so many conversations.
type scale struct{ rounds, conversations int }

// An outcome is what came of a row.
type outcome struct {
	cloche, peer Figure
	noPeer       string // why there is no peer to compare with
}

// unfit is the error of a row for which the host turns out not to have enough:
// it is left out.
type unfit string

func (u unfit) Error() string { return string(u) }

// line measures a row, in at most limit.
func (b *bench) line(ctx context.Context, r *row, limit time.Duration) Line {
	s := r.full
	if !b.o.Full {
		s = r.quick
	}
	l := Line{Name: r.name, What: r.named(s), Beside: r.peer, Bar: r.bar, Verdict: LeftOut}
	if s == (scale{}) {
		l.What, l.Why = r.named(r.full), "only a full run measures it"
		return l
	}
	if r.without != nil {
		if l.Why = r.without(b); l.Why != "" {
			return l
		}
	}
	if b.o.Rounds > 0 {
		s.rounds = b.o.Rounds
	}
	b.o.Progress(fmt.Sprintf("%s: %s", r.name, l.What))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("a row may take %v", limit))
	defer cancel()
	o, err := r.measure(ctx, b, s)
	if lacking, ok := errors.AsType[unfit](err); ok {
		l.Why = string(lacking)
		return l
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		l.Verdict, l.Why = Failed, oneLine(err.Error())
		return l
	}
	l.fill(o, s.conversations == r.full.conversations)
	return l
}

// oneLine returns text without its line ends.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// pause waits until what is done after a call, while nobody waits for it, is
// over: it is not to slow what is measured next.
func pause(ctx context.Context) { wait(ctx, 20*time.Millisecond) }

// wait waits for d, or for the end of ctx, and says whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
