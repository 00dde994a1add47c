package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloche.dev/cloche/policy"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/stream"
	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/headline"
	"cloche.dev/cloche/tools/schema"
)

// interpreterDoc is what agents read of code_interpreter.
const interpreterDoc = `Runs Python code in a fresh process in a sandbox: no network, no credentials, nothing of the host but its read-only /usr.

The first line of the result says how it went: seconds, exit, what to do if it failed. Then come stdout and the value of the last expression (as in a notebook; None shows nothing), then [stderr] with tracebacks that carry your own line numbers.

- Every call starts anew: no variables, files or processes of an earlier call are there. Bring data in the code, print what you want to know.
- Working directory /work, scratch space in /tmp; both are empty at the start of a call.
- Installed packages (numpy, pandas, matplotlib where the host has them), limits and versions: sandbox_status. Nothing can be installed from inside.
- Standard input is empty; input() is an error. Subprocesses and threads work and end with the call.
- Long output is cut in the middle; the first line says so. Print only the part you need.
- Calls of one conversation run one after the other.`

type interpreterArgs struct {
	Code           string   `json:"code" jsonschema:"Python source, run as __main__"`
	TimeoutSeconds *float64 `json:"timeout_seconds,omitempty" jsonschema:"how long the code may run; sandbox_status tells the default and the most"`
	Conversation   string   `json:"conversation,omitempty" jsonschema:"id of a conversation, from an earlier result, to go on in it; new to start another; leave out for the present one"`
}

// notMounted is why code sees no workspace.
const notMounted = "nothing is kept from call to call"

// progressEvery is how often a waiting client is told that code still runs.
const progressEvery = time.Second

// Interpreter returns the tool code_interpreter, which takes sandboxes that are
// kept warm in p.
func Interpreter(p *pool.Pool) tools.Tool {
	i := interpreter{p}
	return tools.Tool{
		Name: "code_interpreter", Title: "Run Python code", Doc: interpreterDoc,
		Schema:   schema.For[interpreterArgs](),
		ReadOnly: false, Destructive: false, Idempotent: false, OpenWorld: false,
		Queued: true,
		Check:  check,
		Run:    i.run,
	}
}

type interpreter struct{ pool *pool.Pool }

// asked is what a call asks for.
type asked struct {
	code    string
	timeout time.Duration
}

// check refuses code that is too long, and times that nobody may ask for. The
// arguments are let go but for the conversation, for they hold the code once more.
func check(call *tools.Call) error {
	args, err := schema.Decode[interpreterArgs](call.Arguments)
	if err != nil {
		return err
	}
	limits := call.Policy.Calls
	if err := policy.Code(int64(limits.MaxCode), args.Code); err != nil {
		return err
	}
	timeout, err := policy.Timeout(time.Duration(limits.Timeout), time.Duration(limits.MaxTimeout), args.TimeoutSeconds)
	if err != nil {
		return err
	}
	call.Decoded = asked{args.Code, timeout}
	call.Arguments, err = json.Marshal(interpreterArgs{Conversation: args.Conversation})
	return err
}

func (i interpreter) run(ctx context.Context, call *tools.Call) (tools.Result, error) {
	args := call.Decoded.(asked)
	timeout := args.timeout
	limits := call.Policy.Calls
	kind := Kind(call.Policy)
	i.pool.Keep(ctx, kind, call.Policy.Pool.Warm)
	stdout, stderr := stream.New(int(limits.Output)), stream.New(int(limits.Output))
	job := conversation.Job{
		Kind: kind, Code: args.code, Timeout: timeout, Idle: time.Duration(call.Policy.Sandbox.Idle),
		Stdout: stdout, Stderr: stderr,
	}
	queued, behind := call.Turn.Waited, call.Turn.Behind
	stop := progress(ctx, call, timeout)
	exit, err := call.Conversation.Run(ctx, call.Turn, job)
	stop()
	if err != nil {
		return tools.Result{}, notRun(ctx, err)
	}
	report := headline.Report{
		How: "fresh process", Workspace: headline.Workspace{NotMounted: notMounted},
		Exit: exit, TimeLimit: timeout, MaxTime: time.Duration(limits.MaxTimeout), Queued: queued, Behind: behind,
		Call: call.Number, Conversation: call.Conversation.ID, Tell: call.Conversation.Tell(), Notices: call.Notices,
	}
	report.Stdout.Text, report.Stdout.Cut = stdout.Text()
	report.Stderr.Text, report.Stderr.Cut = stderr.Text()
	result := tools.Text(report.Text())
	result.Structured = report.Structured()
	return result, nil
}

// notRun is the error of a call whose code was not run.
func notRun(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); !ok && ctx.Err() != nil {
		return fault.Wrap(fault.Gone, err, "the call was cancelled before its code ran")
	}
	return err
}

// progress tells the client, if it asked, that the call still runs. The function
// it returns ends that, and waits for it.
func progress(ctx context.Context, call *tools.Call, timeout time.Duration) func() {
	if call.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	start := time.Now()
	done.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				call.Progress(fmt.Sprintf("running for %s of at most %s", human.Seconds(now.Sub(start).Round(time.Second)), human.Seconds(timeout)))
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
