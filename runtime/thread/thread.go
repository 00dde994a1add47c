// Package thread runs functions on threads of their own, for what the kernel
// keeps for each thread: credentials, namespaces.
package thread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Run runs f on a thread that ends with it, so that nobody else meets what f
// changed there, and returns what f returns. The thread is never the process's
// first: that one cannot end, and /proc shows its state as that of the process.
func Run(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			done <- f()
			return // without unlocking: the runtime ends the thread
		}
		// While this goroutine has the first thread, another one has not.
		defer runtime.UnlockOSThread()
		done <- Run(f)
	}()
	return <-done
}
