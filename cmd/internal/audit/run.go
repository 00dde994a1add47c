package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cloche.dev/cloche/tools/headline"
)

// A Caller calls code_interpreter. It may be used from several goroutines.
type Caller interface {
	// Call runs code in a conversation, which is an id or "new". An error says
	// that the code was not run.
	Call(ctx context.Context, conversation, code string, timeout time.Duration) (Answer, error)
}

// An Answer is what a call answered: to read, and as a structure.
type Answer struct {
	Text string
	headline.Structured
}

// Limits are those that the sandboxes are said to have; probes measure what they
// get by these.
type Limits struct {
	MemoryBytes int64
	PIDs        int64
	// CPUs is 0 where processors are said not to be limited.
	CPUs float64
	// Kernel: what the kernel holds for code counts as its memory.
	Kernel bool
}

// Bounds of what is waited for.
const (
	// patience is how long a call may take beyond the time that its code has.
	patience = 10 * time.Second
	// promptly is how long another conversation may wait while a probe is a load.
	promptly = time.Second
	// pause is that between two calls of the other conversation.
	pause = 50 * time.Millisecond
)

// afterwards shows what a call must find: empty folders, but for its home, and
// no process but its own and the parent.
const (
	afterwards = "import os\nprint(os.listdir('/work'), os.listdir('/tmp'), os.listdir('/dev/shm'), sum(n.isdigit() for n in os.listdir('/proc')))"
	asNew      = "[] ['home'] [] 2\n"
)

// A Runner runs probes, all in one conversation. It is for one goroutine.
type Runner struct {
	caller     Caller
	limits     Limits
	own, other string // the conversation of the probes, and another one
}

// New returns a Runner, with conversations of its own.
func New(ctx context.Context, c Caller, l Limits) (*Runner, error) {
	r := &Runner{caller: c, limits: l}
	for _, id := range []*string{&r.own, &r.other} {
		a, err := c.Call(ctx, "new", plainly, defaultLimit)
		if err != nil {
			return nil, fmt.Errorf("begin a conversation: %w", err)
		}
		*id = a.Conversation
	}
	if r.own == "" || r.own == r.other {
		return nil, errors.New("begin two conversations: they are one")
	}
	return r, nil
}

// Run runs a probe. After it the next call of the conversation has to work as if
// nothing had been.
func (r *Runner) Run(ctx context.Context, p Probe) Finding {
	f := r.once(ctx, p)
	if f.Worst <= promptly || f.Verdict != Failed || ctx.Err() != nil {
		return f
	}
	// The machine may have had something else to do. What a wall lets through
	// comes through a second time.
	worst := f.Worst
	f = r.once(ctx, p)
	f.Retried = worst
	return f
}

// once runs a probe once.
func (r *Runner) once(ctx context.Context, p Probe) Finding {
	f := nothing(p)
	code, err := p.Source(r.limits)
	if err != nil {
		return f.failed("%v", err)
	}
	stop := func(f Finding) Finding { return f }
	if p.Load {
		stop = r.meanwhile(ctx, p)
	}
	callCtx, cancel := context.WithTimeoutCause(ctx, p.Limit+patience, errLate)
	defer cancel()
	start := time.Now()
	a, err := r.caller.Call(callCtx, r.own, code, p.Limit)
	f.Took = time.Since(start)
	switch {
	case callCtx.Err() != nil:
		f = f.failed("%v", context.Cause(callCtx))
	case err != nil:
		f = f.failed("the code was not run: %v", err)
	default:
		f = f.judge(a)
		if a.Conversation != r.own {
			f = f.failed("another conversation answered: %s", a.Conversation)
		}
	}
	f = stop(f)
	if err := r.works(ctx); err != nil {
		f = f.failed("the next call: %v", err)
	}
	return f
}

// errLate is why a call is given up.
var errLate = errors.New("there was no answer in time")

// works checks that the next call does.
func (r *Runner) works(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errLate)
	defer cancel()
	a, err := r.caller.Call(ctx, r.own, afterwards, patience)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case a.Stdout != asNew || a.Stderr != "" || endOf(a) != "exit 0":
		return fmt.Errorf("%s, it found %q, not %q", endOf(a), a.Stdout+a.Stderr, asNew)
	}
	return nil
}

// meanwhile keeps calling in the other conversation until stop is called, which
// waits for the last answer and adds to a finding what came of it.
func (r *Runner) meanwhile(ctx context.Context, p Probe) (stop func(Finding) Finding) {
	end := make(chan struct{})
	var work sync.WaitGroup
	var seen Finding
	work.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			begin := time.Now()
			a, err := r.caller.Call(ctx, r.other, p.Meanwhile, patience)
			seen.Worst = max(seen.Worst, time.Since(begin))
			seen.Answers++
			if seen.Problem == "" && (err != nil || a.Stdout != "42\n") {
				seen = seen.failed("another conversation got %q, %v", a.Stdout+a.Stderr, err)
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	})
	return func(f Finding) Finding {
		close(end)
		work.Wait()
		f.Worst, f.Answers = seen.Worst, seen.Answers
		if seen.Problem != "" {
			f = f.failed("%s", seen.Problem)
		}
		if seen.Worst > promptly {
			f = f.failed("another conversation waited %v", seen.Worst.Round(time.Millisecond))
		}
		return f
	}
}

// endOf returns how a call ended, in the words of Probe.Ends; that it took the
// sandbox along is an end of its own.
func endOf(a Answer) string {
	end := string(a.Exit.Reason)
	switch {
	case end == "exit" && a.Exit.Code != nil:
		end = fmt.Sprintf("exit %d", *a.Exit.Code)
	case end == "signal":
		end = fmt.Sprintf("signal %d", a.Exit.Signal)
	case end == "out_of_memory":
		end = "out of memory"
	}
	if strings.Contains(a.Exit.Text, "the sandbox ended") {
		end += " and the sandbox with it"
	}
	return end
}

// Decode reads the structured content of an answer.
func Decode(text string, structured json.RawMessage) (Answer, error) {
	a := Answer{Text: text}
	if err := json.Unmarshal(structured, &a.Structured); err != nil {
		return Answer{}, fmt.Errorf("read the structured answer: %w", err)
	}
	return a, nil
}
