package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/tools/headline"
	"cloche.dev/cloche/tools/mcpclient"
)

// newConversation as a call's conversation starts one.
const newConversation = "new"

// A server is a cloche stdio with a configuration and a data directory of its
// own, and its client.
type server struct {
	client *mcpclient.Client
	dir    string
}

// serve starts a server with a configuration. It is the caller's to close.
func (b *bench) serve(ctx context.Context, config string) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "server-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	file := filepath.Join(dir, "config.toml")
	// Calls in flight are of no use to anybody when the bench ends early.
	config = "[server]\nstop_grace = \"0s\"\n" + config
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(s.log())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.client, err = mcpclient.Start(ctx, mcpclient.Command{
		Path: b.o.Cloche, Args: []string{"stdio", "--config", file, "--data-dir", filepath.Join(dir, "data")},
		Env:    []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "CLOCHE_SHIM=" + b.o.Shim},
		Stderr: log,
	})
	if err != nil {
		return nil, s.explained(err)
	}
	return s, nil
}

// close ends the server. What err says already goes before what ending it says.
func (s *server) close(err *error) {
	if cerr := s.client.Close(); *err == nil && cerr != nil {
		*err = s.explained(cerr)
	}
}

func (s *server) log() string { return filepath.Join(s.dir, "log") }

// explained adds to an error the last line of the server's log that warns of
// something.
func (s *server) explained(err error) error {
	text, rerr := os.ReadFile(s.log())
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(text)), "\n")) {
		if !strings.Contains(line, "level=INFO") && line != "" {
			return fmt.Errorf("%w; the server's log: %.500s", err, line)
		}
	}
	return err
}

// An answer is what a call of code_interpreter came to.
type answer struct {
	headline.Structured
	isError bool
	Error   struct {
		Kind fault.Kind
		Text string
	}
}

// call runs code in a conversation, "" for the server's first, and returns how
// long that took at the client.
func (s *server) call(ctx context.Context, conversation, code string) (answer, time.Duration, error) {
	arguments := map[string]string{"code": code}
	if conversation != "" {
		arguments["conversation"] = conversation
	}
	begin := time.Now()
	result, err := s.client.Call(ctx, "code_interpreter", arguments)
	took := time.Since(begin)
	if err != nil {
		return answer{}, took, err
	}
	a := answer{isError: result.IsError}
	if err := json.Unmarshal(result.Structured, &a); err != nil {
		return a, took, fmt.Errorf("read the result: %w", err)
	}
	return a, took, nil
}

// wrong says what is wrong with an answer that was to print want, nil if nothing
// is.
func (a *answer) wrong(want string) error {
	switch {
	case a.isError:
		return a.asError()
	case a.Exit.Code == nil || *a.Exit.Code != 0 || a.Stdout != want:
		return fmt.Errorf("the call ended with %q and printed %.200q and %.500q", a.Exit.Text, a.Stdout, a.Stderr)
	}
	return nil
}

// run is call for code that prints want. It returns the conversation's id.
func (s *server) run(ctx context.Context, conversation, code, want string) (string, time.Duration, error) {
	a, took, err := s.call(ctx, conversation, code)
	if err == nil {
		err = a.wrong(want)
	}
	if err != nil {
		return "", 0, s.explained(err)
	}
	return a.Conversation, took, nil
}

// Bounds of waiting for imports, and how often it is looked.
const (
	importLimit   = time.Minute
	importLimitOf = 2 * time.Second // and so much longer for each sandbox
	importPause   = 100 * time.Millisecond
	poolPause     = 50 * time.Millisecond
)

// imported waits until the sandboxes of conversations, each of which has one,
// have the libraries imported. It is an error when that takes too long, or more
// memory than the host has to spare.
func (s *server) imported(ctx context.Context, conversations ...string) error {
	all := len(conversations)
	limit := importLimit + time.Duration(all)*importLimitOf
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("sandboxes have not imported the libraries within %v", limit))
	defer cancel()
	for {
		var waiting []string
		for _, id := range conversations {
			a, _, err := s.call(ctx, id, hasImported)
			if err = errors.Join(context.Cause(ctx), err, a.asError()); err != nil {
				return s.explained(err)
			}
			if a.Stdout != "True\n" {
				waiting = append(waiting, id)
			}
		}
		if conversations = waiting; len(waiting) == 0 {
			return nil
		}
		if err := enoughMemory(all-len(waiting), all); err != nil {
			return err
		}
		if !wait(ctx, importPause) {
			return context.Cause(ctx)
		}
	}
}

// asError is what the answer says of a call that was not carried out.
func (a *answer) asError() error {
	if !a.isError {
		return nil
	}
	return errors.New(a.Error.Text)
}

// filled waits until the pool has a sandbox with the libraries imported.
func (s *server) filled(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, importLimit, fmt.Errorf("the pool was not filled within %v", importLimit))
	defer cancel()
	for {
		result, err := s.client.Call(ctx, "sandbox_status", nil)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		var status struct{ Loaded []string }
		if err := json.Unmarshal(result.Structured, &status); err != nil {
			return fmt.Errorf("read the status: %w", err)
		}
		if slices.Contains(status.Loaded, plotting) {
			return nil
		}
		if !wait(ctx, poolPause) {
			return context.Cause(ctx)
		}
	}
}
