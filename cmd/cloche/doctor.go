package main

import (
	"context"
	"fmt"
	"io"
)

// A state is the outcome of a check.
type state string

const (
	good    state = "ok"
	limited state = "limited" // it works, but less well than it could
	missing state = "missing" // nothing runs until it is mended
)

// A finding is what a check found.
type finding struct {
	Name   string `json:"name"`
	State  state  `json:"state"`
	Detail string `json:"detail"`
	// Remedy is the exact command that mends it, "" if nothing is to be mended.
	Remedy string `json:"remedy,omitempty"`
}

type doctorCommand struct {
	JSON bool `help:"Print JSON."`
}

func (doctorCommand) Help() string {
	return `Each line is a thing that cloche needs or can use: ok, limited (works, but could be better) or missing (nothing runs until it is mended), with the exact command that mends it. The last check runs code in a real sandbox.

Exit codes: 0 if code can be run, 1 if something is missing, 2 for a wrong command line.

Example: cloche doctor --json`
}

// Run makes all checks, in an order in which a failure explains later ones.
func (c *doctorCommand) Run(ctx context.Context, line *commandLine, s streams) error {
	h := thisHost()
	findings := []finding{
		h.kernel(),
		h.userNamespaces(ctx),
		h.python(),
		h.shim(),
		h.configuration(line),
		h.dataDirectory(line),
		h.shows(),
	}
	works := true
	for _, f := range findings {
		works = works && f.State != missing
	}
	if works {
		findings = append(findings, h.sandbox(ctx, line)...)
	} else {
		findings = append(findings, finding{
			"sandbox", missing, "not tried; mend what is missing above, then try again", "cloche doctor",
		})
	}
	if err := c.print(s.out, findings); err != nil {
		return err
	}
	for _, f := range findings {
		if f.State == missing {
			return &exitError{code: exitFailure}
		}
	}
	return nil
}

func (c *doctorCommand) print(w io.Writer, findings []finding) error {
	if c.JSON {
		return encode(w, findings)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-8s %-16s %s\n", f.State, f.Name, f.Detail); err != nil {
			return err
		}
		if f.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-8s %-16s mend it with: %s\n", "", "", f.Remedy); err != nil {
			return err
		}
	}
	return nil
}
