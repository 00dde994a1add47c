package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// A prompt reads entries and runs each. An entry is a line, or a block up to an
// empty line if the first line does not stand for itself.
type prompt struct {
	in     io.Reader
	err    io.Writer
	person bool // somebody sits there
	most   int  // bytes of a line
	run    func(source string) error

	last error // of the entry that was run last
}

// serve reads entries until their end, or that of ctx. Its error is that of the
// last one. After the end of ctx one read may still be going on, which ends with
// the process.
func (p *prompt) serve(ctx context.Context) error {
	p.say("Each entry runs in a fresh process: variables do not stay. A block ends with an empty line. Ctrl-D ends.\n")
	lines, failed := p.read(ctx)
	for more := true; more; {
		var entry []string
		entry, more = p.entry(ctx, lines)
		if ctx.Err() != nil {
			p.say("\n")
			return &exitError{code: exitSignal + int(unix.SIGINT)}
		}
		p.enter(entry)
	}
	p.say("\n")
	if err := <-failed; err != nil {
		return &exitError{exitNotRun, fmt.Errorf("read the prompt: %w", err)}
	}
	return p.end()
}

// entry reads an entry; more is false at the end of all, or of ctx.
func (p *prompt) entry(ctx context.Context, lines <-chan string) (entry []string, more bool) {
	p.say(">>> ")
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return entry, false
			}
			entry = append(entry, line)
		case <-ctx.Done():
			return nil, false
		}
		if !unfinished(entry) {
			return entry, true
		}
		p.say("... ")
	}
}

// read reads lines until ctx ends; then comes the error, if there was one.
func (p *prompt) read(ctx context.Context) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	in := bufio.NewScanner(p.in)
	in.Buffer(nil, p.most+1)
	go func() {
		defer close(lines)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
		err := in.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line has more than the %d bytes that code may have", p.most)
		}
		failed <- err
	}()
	return lines, failed
}

// enter runs an entry, unless it is blank.
func (p *prompt) enter(entry []string) {
	source := strings.Join(entry, "\n")
	if strings.TrimSpace(source) == "" {
		return
	}
	p.last = p.run(source + "\n")
	if e, ok := errors.AsType[*exitError](p.last); p.last != nil && (!ok || e.err != nil) {
		fmt.Fprintf(p.err, "cloche: %s\n", readable(p.last))
	}
}

// end is the outcome of the last entry, which has been told already.
func (p *prompt) end() error {
	if p.last == nil {
		return nil
	}
	code := exitFailure
	if e, ok := errors.AsType[*exitError](p.last); ok {
		code = e.code
	}
	return &exitError{code: code}
}

// say tells the person, if there is one.
func (p *prompt) say(text string) {
	if p.person {
		fmt.Fprint(p.err, text)
	}
}

// unfinished says whether an entry goes on: its first line opens something, and
// its last is not empty.
func unfinished(entry []string) bool {
	first, last := strings.TrimSpace(entry[0]), entry[len(entry)-1]
	if first == "" || first[0] == '#' {
		return false
	}
	count := func(marks ...string) (n int) {
		for _, m := range marks {
			n += strings.Count(first, m)
		}
		return n
	}
	opens := strings.HasSuffix(first, ":") || strings.HasSuffix(first, `\`) || first[0] == '@' ||
		count("(", "[", "{") > count(")", "]", "}") || count(`"""`)%2 == 1 || count("'''")%2 == 1
	return opens && strings.TrimSpace(last) != ""
}
