package bench

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/instance"
	"cloche.dev/cloche/runtime/pydriver"
	"cloche.dev/cloche/runtime/shim"
	"cloche.dev/cloche/tools/code"
)

// startAndDestroy makes sandboxes with a shim of its own, without a server, and
// has runc do the same. Either is ready when its Python says so.
func startAndDestroy(ctx context.Context, b *bench, s scale) (o outcome, err error) {
	dir, err := os.MkdirTemp(b.dir, "start-")
	if err != nil {
		return outcome{}, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return outcome{}, err
	}
	defer log.Close()
	own, err := instance.Open(filepath.Join(dir, "data"), b.o.Sweep)
	if err != nil {
		return outcome{}, err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	runner := shim.New(shim.Options{
		Path: b.o.Shim, Instance: own.Name, Stderr: log, Log: slog.New(slog.DiscardHandler),
	})
	defer func() { err = errors.Join(err, runner.Close()) }()
	setup, err := runner.Limited(ctx)
	if err != nil {
		return outcome{}, err
	}
	policy := config.Default()
	spec := code.Kind(&policy).Spec
	peer, noPeer := b.runcPeer(ctx, setup, spec.Limits)
	o, err = inTurns(ctx, s.rounds, func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		p, err := pydriver.Start(ctx, runner, spec, nil)
		if err != nil {
			return 0, err
		}
		err = p.Destroy(ctx)
		return time.Since(begin), err
	}, peer)
	o.noPeer = noPeer
	return o, err
}
