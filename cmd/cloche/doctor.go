package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"cloche.dev/cloche/cmd/cloche/internal/doctor"
	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/tools/code"
)

type doctorCommand struct {
	JSON bool `help:"Print JSON."`
}

func (doctorCommand) Help() string {
	return `Each line is a thing that cloche needs or can use: ok, limited (works, but could be better) or missing (nothing runs until it is mended), with the exact command that mends it, or why there is none. The last check runs code in a real sandbox.

Exit codes: 0 if code can be run, 1 if something is missing, 2 for a wrong command line.

Example: cloche doctor --json`
}

// Run makes all checks.
func (c *doctorCommand) Run(ctx context.Context, line *commandLine, s streams) error {
	h := doctor.This(doctor.Options{
		Config: line.Config, DataDir: line.DataDir, Shim: shimPath, Sweep: sweep, Readable: readable,
	})
	findings := h.Look(ctx)
	if doctor.Works(findings) {
		findings = append(findings, c.sandbox(ctx, line, h, findings)...)
	} else {
		findings = append(findings, doctor.NotTried())
	}
	if err := c.print(s.out, findings); err != nil {
		return err
	}
	if !doctor.Works(findings) {
		return &exitError{code: exitFailure}
	}
	return nil
}

// sandbox runs code in a real one, after found was found.
func (c *doctorCommand) sandbox(ctx context.Context, line *commandLine, h *doctor.Host, found []doctor.Finding) []doctor.Finding {
	var log lastLines
	a, err := openApp(ctx, line, &log, slog.LevelWarn, "doctor")
	if err != nil {
		return []doctor.Finding{h.Failed(err, "")}
	}
	var run doctor.Run
	kind := code.Kind(a.policy.Current())
	start := time.Now()
	run.Inventory, err = inventory.New(a.runner).Of(ctx, kind)
	run.Took = time.Since(start)
	if err == nil {
		run.Setup, err = a.runner.Limited(ctx)
	}
	if err == nil {
		run.Template = a.runner.Preloaded(ctx, kind.Spec)
	}
	if err = errors.Join(err, a.Close(ctx)); err != nil {
		return []doctor.Finding{h.Failed(err, log.String())}
	}
	return h.Ran(found, run)
}

func (c *doctorCommand) print(w io.Writer, findings []doctor.Finding) error {
	if c.JSON {
		return encode(w, findings)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-8s %-16s %s\n", f.State, f.Name, f.Detail); err != nil {
			return err
		}
		for _, more := range []struct{ title, text string }{
			{"mend it with", f.Remedy}, {"or with", f.Or}, {"no command mends it", f.Why},
		} {
			if more.text == "" {
				continue
			}
			if _, err := fmt.Fprintf(w, "%-8s %-16s %s: %s\n", "", "", more.title, more.text); err != nil {
				return err
			}
		}
	}
	return nil
}
