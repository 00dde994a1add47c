package thread

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestRun: each function has a thread to itself, which is not the first and is
// gone afterwards.
func TestRun(t *testing.T) {
	want := errors.New("the function's")
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			var name [16]byte
			err := Run(func() error {
				if id := unix.Gettid(); id == os.Getpid() {
					t.Error("the function runs on the first thread")
				}
				if err := unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0); err != nil {
					t.Error(err)
				}
				if string(name[:5]) == "mine\x00" {
					t.Error("the function meets what another one changed")
				}
				mine := [16]byte{'m', 'i', 'n', 'e'}
				if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&mine)), 0, 0, 0); err != nil {
					t.Error(err)
				}
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("Run = %v, want %v", err, want)
			}
		})
	}
	all.Wait()
}

// TestRunFromTheFirst calls Run where the first thread is the one that is free.
func TestRunFromTheFirst(t *testing.T) {
	if unix.Gettid() != os.Getpid() {
		t.Log("this goroutine is not on the first thread; Run may be")
	}
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	for range 100 {
		if err := Run(func() error {
			if unix.Gettid() == os.Getpid() {
				return errors.New("on the first thread")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
