package seccomp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// go-seccomp-bpf gives the tables, but not the compiler. After a test of an
// argument has failed, its programs go on to compare the calls that follow with
// that argument instead of the number: socket(AF_VSOCK | 316<<32) passes as
// renameat2, which is 316, and prlimit64(1 | 316<<32) reaches PID 1. Here what is
// decided about a number ends in a return.

// Where the kernel puts what a filter looks at (struct seccomp_data). Both
// architectures have the lower half of an argument first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// What the program can answer.
var (
	allow  = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	done   = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO} // with no error
	refuse = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	nosys  = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	kill   = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
)

// compile returns the program for goarch. A name in the lists that is unknown
// there, or is listed twice, is an error.
func compile(goarch string) ([]bpf.Instruction, error) {
	d, err := decide(goarch)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(tables[goarch].ID), SkipTrue: 1},
		kill,
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(len(d.code)), SkipTrue: 1},
		nosys,
	}, search(d.spans())), nil
}

// decisions are what is done about each call that its architecture knows.
type decisions struct {
	goarch  string
	numbers map[string]int
	code    [][]bpf.Instruction // by number; each ends in a return on every path
}

func decide(goarch string) (*decisions, error) {
	table, ok := tables[goarch]
	if !ok {
		return nil, fmt.Errorf("no list of system calls for %s", goarch)
	}
	highest := slices.Max(slices.Collect(maps.Keys(table.SyscallNumbers)))
	d := &decisions{goarch: goarch, numbers: table.SyscallNames, code: make([][]bpf.Instruction, highest+1)}
	for _, g := range groups {
		if err := d.set(g.only, g.calls, allow); err != nil {
			return nil, fmt.Errorf("%s: %w", g.purpose, err)
		}
	}
	for _, r := range rules {
		if err := d.set(r.only, r.call, r.check()...); err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
	}
	if err := d.set("", absent, nosys); err != nil {
		return nil, fmt.Errorf("absent: %w", err)
	}
	for n, c := range d.code {
		if c == nil {
			d.code[n] = []bpf.Instruction{refuse}
		}
	}
	return d, nil
}

// set decides about the calls named, if only is empty or the architecture.
func (d *decisions) set(only, calls string, code ...bpf.Instruction) error {
	if only != "" && only != d.goarch {
		return nil
	}
	for name := range strings.FieldsSeq(calls) {
		n, ok := d.numbers[name]
		if !ok {
			return fmt.Errorf("%s has no system call %s", d.goarch, name)
		}
		if d.code[n] != nil {
			return fmt.Errorf("system call %s is listed twice", name)
		}
		d.code[n] = code
	}
	return nil
}

// A span is numbers, from first up to the next span's, with the same decision.
type span struct {
	first uint32
	code  []bpf.Instruction
}

func (d *decisions) spans() []span {
	var spans []span
	for n, c := range d.code {
		if n == 0 || !slices.Equal(c, d.code[n-1]) {
			spans = append(spans, span{first: uint32(n), code: c})
		}
	}
	return spans
}

// search finds the span of the loaded number by halving.
func search(spans []span) []bpf.Instruction {
	if len(spans) == 1 {
		return spans[0].code
	}
	middle := len(spans) / 2
	low, high := search(spans[:middle]), search(spans[middle:])
	first := spans[middle].first
	branch := []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: first, SkipTrue: uint8(len(low))}}
	if len(low) > 255 { // more than a conditional jump can skip
		branch = []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: first, SkipTrue: 1},
			bpf.Jump{Skip: uint32(len(low))},
		}
	}
	return slices.Concat(branch, low, high)
}

// check refuses if one of the ways to do so holds, pretends or allows if another
// one does, and refuses otherwise.
func (r rule) check() []bpf.Instruction {
	var code []bpf.Instruction
	for _, w := range r.refuse {
		code = append(code, w.check(refuse)...)
	}
	for _, w := range r.pretend {
		code = append(code, w.check(done)...)
	}
	for _, w := range r.ways {
		code = append(code, w.check(allow)...)
	}
	return append(code, refuse)
}

// check answers, or goes on behind itself.
func (w way) check(answer bpf.Instruction) []bpf.Instruction {
	code := []bpf.Instruction{answer}
	for _, t := range slices.Backward(w) {
		at := offArgs + 8*t.arg
		code = slices.Concat(half(at, uint32(t.mask), uint32(t.value), len(code)), code)
		code = slices.Concat(half(at+4, uint32(t.mask>>32), uint32(t.value>>32), len(code)), code)
	}
	return code
}

// half skips instructions unless the word at off, masked, is value. A way is
// much shorter than the 255 instructions that can be skipped.
func half(off, mask, value uint32, skip int) []bpf.Instruction {
	if mask == 0 {
		return nil
	}
	code := []bpf.Instruction{bpf.LoadAbsolute{Off: off, Size: 4}}
	if mask != ^uint32(0) {
		code = append(code, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
	}
	return append(code, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: uint8(skip)})
}
