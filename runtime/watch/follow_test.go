package watch

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// watched starts a watcher of a fakeProc, in which only the first process runs.
func watched(t *testing.T, limit int64) (*Watcher, *fakeProc) {
	t.Helper()
	p := newFakeProc(t)
	return newWatcher(limit, p.inside, slog.New(slog.DiscardHandler)), p
}

// pass lets time pass in a bubble of synctest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// seen lets time pass and returns what a watcher has seen in it, in megabytes.
func seen(w *Watcher, d time.Duration) int {
	w.Usage()
	pass(d)
	_, peak := w.Usage()
	return int(peak >> 20)
}

// TestFollow: who is not woken does not look, nor who has seen a call end.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := watched(t, 1<<30)
		defer w.Close()
		check := func(when string, d time.Duration, want int) {
			t.Helper()
			if got := seen(w, d); got != want {
				t.Errorf("%s: %d MiB were seen, want %d", when, got, want)
			}
		}
		check("before any call", time.Hour, 0)

		w.Wake()
		check("a call that was told of", time.Second, 10)
		p.put("7/status", status("S", 1, 20, 0))
		check("it has begun", time.Second, 30)
		p.put("7/status", status("S", 1, 40, 0))
		check("it goes on", time.Hour, 50)
		p.put("7/status", status("Z", 1, 0, 0))
		p.put("7/task/7/status", status("Z", 1, 0, 0))
		check("it has ended", longestWait, 10)
		check("afterwards", time.Hour, 0)

		w.Wake()
		check("a call that does not begin", time.Second, 10)
		check("it has not begun yet", beginWait-2*time.Second, 10)
		pass(2 * time.Second)
		check("it will not begin", time.Hour, 0)

		w.Wake()
		pass(time.Millisecond)
		w.Rest(nil)
		check("a call that was over soon", time.Hour, 0)

		w.Wake()
		pass(beginWait - time.Second)
		w.Wake()
		check("the next call while one is waited for", 2*time.Second, 10)
		check("that one is waited for as long", beginWait/2, 10)
	})
}

// TestPastLimit: it counts before anything is killed, and gives up no earlier
// than it says.
func TestPastLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := watched(t, 100<<20)
		defer w.Close()
		w.Wake()
		p.put("7/status", status("S", 1, 90, 0))
		pass(time.Second)
		if kills, peak := w.Usage(); kills != 0 || peak>>20 != 100 {
			t.Errorf("at the limit: %d kills, peak %d, want none and 100 MiB", kills, peak>>20)
		}
		p.put("7/status", status("S", 1, 91, 0)) // and it cannot be killed
		pass(time.Second)
		if kills, peak := w.Usage(); kills != 1 || peak>>20 != 101 {
			t.Errorf("past the limit: %d kills, peak %d, want 1 and 101 MiB", kills, peak>>20)
		}
		pass(endWait)
		if kills, _ := w.Usage(); kills != 2 {
			t.Errorf("after %v: %d kills, want 2", endWait, kills)
		}
	})
}
