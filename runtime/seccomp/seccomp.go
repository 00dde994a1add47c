// Package seccomp holds the system calls that a sandbox may make, as data, and
// makes of them the program that the kernel runs at each call.
//
// The list is Docker's default one for a process without capabilities, less what
// Python and its tools do without and what reaches another process. A call that
// is not listed, or whose arguments no rule allows, ends with EPERM. A call newer
// than the table of names ends with ENOSYS, so that libraries fall back; x32
// calls, whose numbers are higher still, too. A call through another
// architecture's gate kills the process.
package seccomp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
)

// Program returns the filter for the architecture it runs on, as the kernel
// takes it: an array of struct sock_filter, 8 bytes an instruction, in the
// machine's byte order. It is assembled at the first call; the caller may change
// what it gets. It may be called from several goroutines.
//
// Whoever loads it sets no_new_privs and drops all capabilities first: the list
// is made for a process that has none.
func Program() ([]byte, error) {
	p, err := program()
	return bytes.Clone(p), err
}

var program = sync.OnceValues(func() ([]byte, error) { return assemble(runtime.GOARCH) })

// tables are the names and numbers of the system calls, by GOARCH.
var tables = map[string]*arch.Info{"amd64": arch.X86_64, "arm64": arch.AARCH64}

// assemble returns the bytes of the program for goarch.
func assemble(goarch string) ([]byte, error) {
	code, err := compile(goarch)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(code)
	if err != nil {
		return nil, fmt.Errorf("assemble the system call filter: %w", err)
	}
	p := make([]byte, 0, 8*len(raw))
	for _, r := range raw {
		p = binary.NativeEndian.AppendUint16(p, r.Op)
		p = append(p, r.Jt, r.Jf)
		p = binary.NativeEndian.AppendUint32(p, r.K)
	}
	return p, nil
}
