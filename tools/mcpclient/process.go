package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a server may take to end if its Command does not say.
const patience = 10 * time.Second

// A Command says how to start a server.
type Command struct {
	Path string
	Args []string
	// Env is the whole environment; nil stands for that of this process.
	Env []string
	// Stderr is where the server's log goes; nil: nowhere.
	Stderr io.Writer
	// Version is that of the protocol: Legacy, Modern, or "" for the newest that
	// both know.
	Version string
	// Patience is how long Close waits for the server to end by itself; 10 s if 0.
	Patience time.Duration
}

// Start starts a server and begins to talk to it. ctx bounds only that; Close
// ends the server. After an error nothing is left running.
func Start(ctx context.Context, command Command) (*Client, error) {
	p, in, out, err := start(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	c, err := Connect(ctx, in, out, command.Version)
	if err != nil {
		return nil, errors.Join(err, p.end())
	}
	c.process = p
	return c, nil
}

// process is a server that this client started.
type process struct {
	cmd      *exec.Cmd
	out      io.Reader
	patience time.Duration
	once     sync.Once
	err      error // written in once
}

func start(ctx context.Context, command Command) (*process, io.Reader, io.WriteCloser, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command.Path, command.Args...)
	cmd.Env = command.Env
	cmd.Stderr = command.Stderr
	// A grandchild may hold stderr for longer than the server lives.
	cmd.WaitDelay = time.Second
	p := &process{cmd: cmd, patience: command.Patience}
	if p.patience <= 0 {
		p.patience = patience
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	p.out = out
	return p, out, in, cmd.Start()
}

// end waits for the server, whose stdin has been closed, and kills it when
// patience is over.
func (p *process) end() error {
	p.once.Do(func() {
		// A server that still has answers must not wait for a reader. Wait closes
		// the pipe, which ends this.
		var drained sync.WaitGroup
		drained.Go(func() { _, _ = io.Copy(io.Discard, p.out) })
		var killed atomic.Bool
		timer := time.AfterFunc(p.patience, func() { killed.Store(p.cmd.Process.Kill() == nil) })
		err := p.cmd.Wait()
		timer.Stop()
		drained.Wait()
		switch {
		case killed.Load():
			p.err = fmt.Errorf("the server did not end in %v and was killed", p.patience)
		case err != nil:
			p.err = fmt.Errorf("wait for server: %w", err)
		}
	})
	return p.err
}
