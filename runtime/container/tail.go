package container

import (
	"os"
	"sync"
)

// A tail keeps the last bytes that were written to a pipe.
type tail struct {
	pipe *os.File
	done chan struct{}

	mu   sync.Mutex
	last []byte // mu
}

const tailBytes = 2 << 10

// newTail reads pipe until its end, or until close.
func newTail(pipe *os.File) *tail {
	t := &tail{pipe: pipe, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		buf := make([]byte, tailBytes)
		for {
			n, err := pipe.Read(buf)
			t.mu.Lock()
			t.last = append(t.last, buf[:n]...)
			t.last = t.last[max(0, len(t.last)-tailBytes):]
			t.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return t
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}

// close ends the reading and waits for that.
func (t *tail) close() {
	_ = t.pipe.Close()
	<-t.done
}
