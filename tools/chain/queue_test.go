package chain

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/tools"
)

// slow is a queued tool whose calls end when they are released, one each.
func slow(c *Chain) (tool tools.Tool, started chan *tools.Call, release chan struct{}) {
	started, release = make(chan *tools.Call, 100), make(chan struct{})
	t := fake(func(_ context.Context, call *tools.Call) (tools.Result, error) {
		started <- call
		<-release
		return tools.Result{}, nil
	})
	t.Queued = true
	return c.Wrap(t), started, release
}

func run(ctx context.Context, tool tools.Tool) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := tool.Run(ctx, &tools.Call{Tool: tool.Name, Arguments: json.RawMessage("{}")})
		done <- err
	}()
	return done
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newChain(t)
		policy := config.Default()
		policy.Calls.Waiting = 2
		c.Policy = func() *config.Config { return &policy }
		tool, started, release := slow(c)

		first := run(t.Context(), tool)
		synctest.Wait()
		second := run(t.Context(), tool)
		synctest.Wait()
		cancelled, cancel := context.WithCancelCause(t.Context())
		third := run(cancelled, tool)
		synctest.Wait()
		if len(started) != 1 {
			t.Fatalf("%d calls run at a time, want 1", len(started))
		}
		wantFault(t, <-run(t.Context(), tool), fault.Busy, "2 calls of this conversation are waiting already, as many as may")

		reason := errors.New("the client gave up " + secret)
		cancel(reason)
		err := <-third
		wantFault(t, err, fault.Gone, "the call was cancelled while it waited for its turn; nothing was run")
		if !errors.Is(err, reason) {
			t.Errorf("error = %v, want the cause in it for the log", err)
		}

		// Reading tools do not queue.
		if _, err := call(t, c.Wrap(fake(quiet)), "{}"); err != nil {
			t.Errorf("a call that does not queue = %v", err)
		}

		<-time.After(3 * time.Second)
		release <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(started) != 2 {
			t.Fatalf("%d calls were run, want the second after the first", len(started))
		}
		if turn := (<-started).Turn; turn.Waited != 0 || turn.Behind != 0 {
			t.Errorf("first call waited %v behind call %d", turn.Waited, turn.Behind)
		}
		if turn := (<-started).Turn; turn.Waited != 3*time.Second || turn.Behind != 1 {
			t.Errorf("second call waited %v behind call %d, want 3s behind call 1", turn.Waited, turn.Behind)
		}
		release <- struct{}{}
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// TestQueuePanic holds that a call that panics gives its turn back.
func TestQueuePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newChain(t)
		tool := fake(func(context.Context, *tools.Call) (tools.Result, error) { panic("x") })
		tool.Queued = true
		tool = c.Wrap(tool)
		for range 3 {
			wantFault(t, <-run(t.Context(), tool), fault.Internal, "internal error")
		}
	})
}

// TestNoWaiting tries the smallest queue there is: none.
func TestNoWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newChain(t)
		policy := config.Default()
		policy.Calls.Waiting = 0
		c.Policy = func() *config.Config { return &policy }
		tool, _, release := slow(c)
		first := run(t.Context(), tool)
		synctest.Wait()
		wantFault(t, <-run(t.Context(), tool), fault.Busy, "call again")
		release <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
		again := run(t.Context(), tool)
		release <- struct{}{}
		if err := <-again; err != nil {
			t.Error(err)
		}
	})
}
