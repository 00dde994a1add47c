package pydriver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A collector takes in all that is written to it.
type collector struct {
	mu   sync.Mutex
	text bytes.Buffer // mu
	fail bool
}

func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(p)
	if c.fail {
		return 0, errors.New("no more")
	}
	return len(p), nil
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// pipes counts the pipes that this process holds.
func pipes(t *testing.T) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}

// soon fails the test if copies does not end.
func soon(t *testing.T, copies *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		copies.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the copying does not end")
	}
}

// TestOutputOfAnyRhythm: whatever the rhythm of the writes, all comes, in order, and no
// descriptor stays.
func TestOutputOfAnyRhythm(t *testing.T) {
	short := func(n int) func(*os.File) {
		return func(f *os.File) {
			for i := range n {
				fmt.Fprintln(f, i)
			}
		}
	}
	long := func(f *os.File) { _, _ = f.Write(bytes.Repeat([]byte("x"), 1<<20)) }
	pause := func(*os.File) { <-time.After(2 * quietTime) }
	before := pipes(t)
	for name, writes := range map[string][]func(*os.File){
		"nothing":                  {},
		"few":                      {short(3)},
		"many":                     {short(50_000)},
		"many, ending after quiet": {short(50_000), pause},
		"long":                     {long, long},
		"many, then long":          {short(50_000), long, short(50_000), long},
		"many, with pauses":        {short(5_000), pause, short(5_000), pause, short(3), pause, long, pause, short(5_000)},
	} {
		for _, fail := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %v", name, fail), func(t *testing.T) {
				got, want := &collector{fail: fail}, new(collector)
				var copies sync.WaitGroup
				o, err := newOutput(&copies, got)
				if err != nil {
					t.Fatal(err)
				}
				expected, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				var reading sync.WaitGroup
				reading.Go(func() { _, _ = want.text.ReadFrom(expected) })
				for _, write := range writes {
					write(o.write)
					write(w)
				}
				o.handedOver()
				_ = w.Close()
				soon(t, &copies)
				reading.Wait()
				_ = expected.Close()
				if g, w := got.String(), want.String(); g != w && (!fail || !strings.HasPrefix(w, g) || g == "") {
					t.Errorf("%d bytes came, ending %q, want %d", len(g), g[max(0, len(g)-20):], len(w))
				}
			})
		}
	}
	if after := pipes(t); after != before {
		t.Errorf("%d pipes are held, %d before", after, before)
	}
}

// TestOutputEnds: a deadline ends the copying though a writer is left, in
// whatever way the pipe is read then.
func TestOutputEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		writes int
	}{{"silent", 0}, {"few", 3}, {"many", 50_000}} {
		t.Run(tt.name, func(t *testing.T) {
			var copies sync.WaitGroup
			got := new(collector)
			o, err := newOutput(&copies, got)
			if err != nil {
				t.Fatal(err)
			}
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for i := 0; ; i++ {
					if i >= tt.writes && tt.writes < 1000 {
						<-stop
						return
					}
					if _, err := o.write.Write([]byte("x\n")); err != nil {
						return // nobody reads any more
					}
				}
			}()
			for tt.writes > 0 && len(got.String()) < 2*tt.writes {
				<-time.After(time.Millisecond)
			}
			o.endBy(time.Now().Add(10 * time.Millisecond))
			soon(t, &copies)
			close(stop)
			<-stopped
			o.handedOver()
		})
	}
}
