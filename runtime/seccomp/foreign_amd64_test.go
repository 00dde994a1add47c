package seccomp

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// getpid is i386's: mov eax, 20; int 0x80; ret.
var getpid = []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3}

// callForeign makes a system call through i386's gate.
func callForeign() error {
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(code, getpid)
	entry := &code[0]
	closure := unsafe.Pointer(&entry) // a func is a pointer to a pointer to code
	(*(*func())(unsafe.Pointer(&closure)))()
	return nil
}

func TestForeignCallKills(t *testing.T) {
	if err := helper(t, "foreign bare").Run(); err != nil {
		unmet(t, "32-bit calls of the kernel", err)
	}
	err := helper(t, "foreign").Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("process that makes a 32-bit call: %v, want it killed", err)
	}
	if ws := exit.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != unix.SIGSYS {
		t.Errorf("process that makes a 32-bit call: %v, want %v", err, unix.SIGSYS)
	}
}
