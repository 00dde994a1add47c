package conversation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/policy/fault"
)

func TestQueueKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		first := enter(t, &q, 1, 16)
		var order []int
		for n := 2; n <= 5; n++ {
			go func() {
				turn := enter(t, &q, n, 16)
				if turn.Behind != 1 {
					t.Errorf("call %d came behind call %d, want 1", n, turn.Behind)
				}
				if want := time.Second * time.Duration(n-1); turn.Waited != want {
					t.Errorf("call %d waited %v, want %v", n, turn.Waited, want)
				}
				order = append(order, n) // one at a time: that is what is tested
				<-time.After(time.Second)
				turn.Leave()
			}()
			synctest.Wait()
		}
		<-time.After(time.Second)
		first.Leave()
		first.End() // twice is no error
		<-time.After(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]int{2, 3, 4, 5}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestQueueRefusesOneTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		first := enter(t, &q, 1, 2)
		done := make(chan *Turn, 2)
		for n := 2; n <= 3; n++ {
			go func() { done <- enter(t, &q, n, 2) }()
			synctest.Wait()
		}
		if turn, err := q.Enter(t.Context(), 4, 2); turn != nil || fault.KindOf(err) != fault.Busy {
			t.Errorf("Enter with two waiting = %v, %v, want busy", turn, err)
		}
		first.Leave()
		(<-done).Leave()
		(<-done).Leave()
		enter(t, &q, 5, 2).Leave() // who was refused took no place
	})
}

// TestQueueWithoutWaiting: what is cleared up after a call is not waited behind.
func TestQueueWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		first := enter(t, &q, 1, 0)
		if _, err := q.Enter(t.Context(), 2, 0); fault.KindOf(err) != fault.Busy {
			t.Errorf("Enter while a call runs and none may wait: %v, want busy", err)
		}
		first.Keep()
		first.Leave()
		done := make(chan *Turn)
		go func() { done <- enter(t, &q, 3, 0) }()
		synctest.Wait()
		if _, err := q.Enter(t.Context(), 4, 0); fault.KindOf(err) != fault.Busy {
			t.Errorf("Enter behind one who waits: %v, want busy", err)
		}
		first.End()
		if turn := <-done; turn.Behind != 0 {
			t.Errorf("Behind = %d, want 0: the call before was over", turn.Behind)
		}
	})
}

func TestQueueGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		why := errors.New("no longer wanted")
		first := enter(t, &q, 1, 16)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			if _, err := q.Enter(ctx, 2, 16); !errors.Is(err, why) {
				t.Errorf("Enter = %v, want the cause", err)
			}
		}()
		synctest.Wait()
		cancel(why)
		synctest.Wait()
		third := make(chan *Turn)
		go func() { third <- enter(t, &q, 3, 1) }()
		synctest.Wait()
		first.Leave()
		(<-third).Leave()
	})
}

// TestQueueGivesUpAsTheTurnComes: whoever gives up in the moment in which the
// turn comes passes it on.
func TestQueueGivesUpAsTheTurnComes(t *testing.T) {
	var q Queue
	for n := range 2000 {
		turn := enter(t, &q, n, 16)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if turn, err := q.Enter(ctx, n, 16); err == nil {
				turn.Leave()
			}
		}()
		go cancel()
		turn.Leave()
		<-done
	}
	enter(t, &q, 0, 0).Leave()
}

// enter fails the test if the turn does not come.
func enter(t *testing.T, q *Queue, number, maxWaiting int) *Turn {
	turn, err := q.Enter(t.Context(), number, maxWaiting)
	if err != nil {
		t.Errorf("Enter(%d) = %v", number, err)
		return &Turn{q: q}
	}
	return turn
}
