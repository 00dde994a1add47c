package main

import (
	"errors"
	"fmt"

	"cloche.dev/cloche/policy/config"
)

type policyCommand struct {
	Check policyCheckCommand `cmd:"" help:"Read the configuration and say what is wrong with it."`
	Show  policyShowCommand  `cmd:"" help:"Print the policy in force, defaults included."`
}

type policyCheckCommand struct {
	File string `arg:"" optional:"" type:"path" help:"File to check, instead of the one in use."`
	JSON bool   `help:"Print JSON."`
}

func (policyCheckCommand) Help() string {
	return `Each problem is printed with its file, line and column, what is allowed, and the nearest known key.

Exit codes: 0 if the file is good or there is none, 1 if it is not, 2 for a wrong command line.

Example: cloche policy check /etc/cloche/config.toml`
}

// Run checks a file.
func (c *policyCheckCommand) Run(line *commandLine, s streams) error {
	explicit := c.File
	if explicit == "" {
		explicit = line.Config
	}
	path, err := config.Find(explicit)
	var policy config.Config
	if err == nil {
		policy, err = config.Load(path)
	} else {
		path = explicit
	}
	if c.JSON {
		return c.json(s, path, policy, err)
	}
	if list, ok := errors.AsType[*config.Error](err); ok {
		fmt.Fprintln(s.err, list) // as compilers and editors have it
		return &exitError{code: exitFailure}
	}
	if err != nil {
		return err
	}
	if path == "" {
		_, err = fmt.Fprintln(s.out, "no configuration file; the defaults hold (cloche policy show prints them)")
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: good; policy %s\n", path, policy.Digest())
	return err
}

// A checked is the outcome for programs.
type checked struct {
	OK       bool      `json:"ok"`
	Path     string    `json:"path"`
	Policy   string    `json:"policy,omitempty"`
	Problems []problem `json:"problems,omitempty"`
	Error    string    `json:"error,omitempty"`
}

type problem struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

func (c *policyCheckCommand) json(s streams, path string, policy config.Config, err error) error {
	answer := checked{OK: err == nil, Path: path}
	if list, ok := errors.AsType[*config.Error](err); ok {
		for _, p := range list.Problems {
			answer.Problems = append(answer.Problems, problem{p.Line, p.Column, p.Text})
		}
	} else if err != nil {
		answer.Error = err.Error()
	} else {
		answer.Policy = policy.Digest()
	}
	if werr := encode(s.out, answer); werr != nil {
		return werr
	}
	if err != nil {
		return &exitError{code: exitFailure}
	}
	return nil
}

type policyShowCommand struct{}

func (policyShowCommand) Help() string {
	return `What is printed is a whole configuration file.

Exit codes: 0, 1 if the configuration is not good, 2 for a wrong command line.

Example: cloche policy show > config.toml`
}

// Run prints the policy.
func (policyShowCommand) Run(line *commandLine, s streams) error {
	path, err := config.Find(line.Config)
	if err != nil {
		return err
	}
	policy, err := config.Load(path)
	if err != nil {
		return err
	}
	from := path
	if from == "" {
		from = "the defaults"
	}
	_, err = fmt.Fprintf(s.out, "# policy %s, from %s\n%s", policy.Digest(), from, policy.TOML())
	return err
}
