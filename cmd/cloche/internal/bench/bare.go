package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloche.dev/cloche/runtime/rootfs"
)

// bare returns what runs code, which prints want, with Python alone and nothing
// around it.
func (b *bench) bare(code, want string) measured {
	return func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		out, err := b.python(ctx, code)
		took := time.Since(begin)
		if err != nil {
			return 0, fmt.Errorf("bare Python: %w", err)
		}
		if out != want {
			return 0, fmt.Errorf("bare Python printed %.200q, not %q", out, want)
		}
		return took, nil
	}
}

// python runs code with Python alone and returns what it prints. What libraries
// keep for the next time, as matplotlib its list of fonts, is the bench's own.
func (b *bench) python(ctx context.Context, code string, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, rootfs.Python, append(flags, "-c", code)...)
	cmd.Dir = b.dir
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + b.dir,
		"MPLBACKEND=agg", "MPLCONFIGDIR=" + filepath.Join(b.dir, "matplotlib"),
	}
	// Where many are started at once, one that was not yet executed may hold the
	// output of another for a while.
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, lastLine(exit.Stderr))
	}
	return string(out), err
}

// bareAtOnce runs code with so many bare Pythons at once.
func (b *bench) bareAtOnce(ctx context.Context, n int, code, want string) (times []time.Duration, wall time.Duration, err error) {
	times = make([]time.Duration, n)
	errs := make([]error, n)
	one := b.bare(code, want)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range n {
		all.Go(func() { times[i], errs[i] = one(ctx) })
	}
	all.Wait()
	return times, time.Since(begin), errors.Join(errs...)
}

// missingLibraries says which library is not there, "" if none is missing.
func (b *bench) missingLibraries(ctx context.Context) string {
	if _, err := os.Stat(rootfs.Python); err != nil {
		return rootfs.Python + " is not there"
	}
	if _, err := b.python(ctx, "import pandas, matplotlib.pyplot", "-I"); err != nil {
		return fmt.Sprintf("pandas and matplotlib cannot be imported: %v", err)
	}
	return ""
}

// lastLine returns the last line of what a program said.
func lastLine(said []byte) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return fmt.Sprintf("%.300s", lines[len(lines)-1])
}
