package mcpclient

import (
	"strings"
	"sync"
)

// A Log keeps what a server writes to its standard error. Its zero value is
// empty. It may be used from several goroutines.
type Log struct {
	mu   sync.Mutex
	text strings.Builder // mu
}

// Write keeps p, and has no error.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
