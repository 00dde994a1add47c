package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloche.dev/cloche/policy/human"
)

// Names of sizes.
const (
	growth  = "growth of memory"
	private = "private memory"
)

// A memory watches that of a server's process.
type memory struct {
	pid    int
	before int64
	peaks  bool // the kernel tells the peak since then
}

// newMemory begins to watch.
func newMemory(s *server) (*memory, error) {
	m := &memory{pid: s.client.PID()}
	var err error
	if m.before, err = resident(m.pid, "VmRSS"); err != nil {
		return nil, err
	}
	// The peak begins anew (proc_pid_clear_refs(5)).
	m.peaks = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.pid), []byte("5"), 0) == nil
	return m, nil
}

// sizes tells what it was, what it is, and by how much it grew meanwhile.
func (m *memory) sizes() ([]Size, error) {
	after, err := resident(m.pid, "VmRSS")
	if err != nil {
		return nil, err
	}
	most := after
	if m.peaks {
		if most, err = resident(m.pid, "VmHWM"); err != nil {
			return nil, err
		}
	}
	return []Size{
		{"server before", m.before}, {"at its peak", most}, {"after", after}, {growth, max(0, most-m.before)},
	}, nil
}

// resident reads a field of proc_pid_status(5), in bytes.
func resident(pid int, field string) (int64, error) {
	return kilobytes(fmt.Sprintf("/proc/%d/status", pid), field)
}

// kilobytes reads a field, of a file like that, that counts KiB; it returns
// bytes.
func kilobytes(file string, fields ...string) (sum int64, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if !slices.Contains(fields, name) {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", name, file, err)
		}
		sum += n << 10
		found++
	}
	if found != len(fields) {
		return 0, fmt.Errorf("%s does not have all of %v", file, fields)
	}
	return sum, nil
}

// enoughMemory is an error when there are only so few of the sandboxes wanted
// and the host has little memory left.
func enoughMemory(got, want int) error {
	free, err := kilobytes("/proc/meminfo", "MemAvailable")
	if err != nil {
		return err
	}
	all, err := kilobytes("/proc/meminfo", "MemTotal")
	if err != nil {
		return err
	}
	if least := max(1<<30, all/8); free < least {
		return unfit(fmt.Sprintf("after %d of %d sandboxes only %s of memory are free, and %s are to stay so", got, want, human.Bytes(free), human.Bytes(least)))
	}
	return nil
}

// idleMemory looks at the memory that idle sandboxes do not share with others:
// at that of their first process, for it is the only one.
func idleMemory(ctx context.Context, b *bench, _ scale) (o outcome, err error) {
	const conversations = 4
	server, err := b.serve(ctx, "")
	if err != nil {
		return outcome{}, err
	}
	defer server.close(&err)
	if _, err := b.warm(ctx, server, conversations); err != nil {
		return outcome{}, err
	}
	if b.unimportable == "" {
		if err := server.filled(ctx); err != nil {
			return outcome{}, err
		}
	}
	// What follows a call, when nobody waits, is over.
	if !wait(ctx, time.Second) {
		return outcome{}, context.Cause(ctx)
	}
	var own []int64
	for _, pid := range firstProcesses(server.client.PID()) {
		n, err := kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Private_Clean", "Private_Dirty", "Swap")
		if errors.Is(err, fs.ErrPermission) {
			return outcome{}, unfit("this user may not look at the memory of a sandbox")
		}
		if err != nil {
			return outcome{}, fmt.Errorf("look at a sandbox's memory: %w", err)
		}
		own = append(own, n)
	}
	if len(own) < conversations {
		return outcome{}, fmt.Errorf("of %d sandboxes %d can be seen in /proc", conversations, len(own))
	}
	slices.Sort(own)
	return outcome{cloche: Figure{Sizes: []Size{
		{private, own[len(own)/2]}, {"least of all", own[0]}, {"most of all", own[len(own)-1]},
	}}}, nil
}

// firstProcesses returns the processes below pid that are the first of a
// sandbox: of a pid namespace in the shim's, which has one of its own.
func firstProcesses(pid int) (first []int) {
	const depth = 2 // of the shim's, from that of pid
	own := len(pidsOf(pid))
	for _, p := range below(pid) {
		if ids := pidsOf(p); len(ids) == own+depth && ids[len(ids)-1] == "1" {
			first = append(first, p)
		}
	}
	return first
}

// pidsOf returns a process's ids, from this pid namespace to its own
// (proc_pid_status(5)).
func pidsOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil // it has ended
	}
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(ids)
		}
	}
	return nil
}

// below returns the processes that descend from pid.
func below(pid int) (all []int) {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		child, err := strconv.Atoi(strings.Split(file, "/")[2])
		// After the name, which may hold anything: state and parent (proc_pid_stat(5)).
		rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if err != nil || len(rest) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(rest[1]); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	for next := children[pid]; len(next) > 0; {
		p := next[0]
		all = append(all, p)
		next = append(next[1:], children[p]...)
	}
	return all
}

// serverMemory looks at a server's memory as it comes to know conversations.
func serverMemory(ctx context.Context, b *bench, s scale) (o outcome, err error) {
	// What sandboxes import is not in the server.
	server, err := b.serve(ctx, "[sandbox]\npreload = []\n")
	if err != nil {
		return outcome{}, err
	}
	defer server.close(&err)
	for range 20 { // what is made once, is there
		if _, _, err := server.run(ctx, "", onePlusOne, two); err != nil {
			return outcome{}, err
		}
	}
	m, err := newMemory(server)
	if err != nil {
		return outcome{}, err
	}
	sizes := []Size{{"with none", m.before}}
	for n := 1; n <= s.conversations; n++ {
		if _, _, err := server.run(ctx, newConversation, onePlusOne, two); err != nil {
			return outcome{}, err
		}
		if n == s.conversations/10 || n == s.conversations {
			now, err := resident(m.pid, "VmRSS")
			if err != nil {
				return outcome{}, err
			}
			sizes = append(sizes, Size{"with " + human.Count(int64(n)), now})
		}
	}
	last := sizes[len(sizes)-1].Bytes
	sizes = append(sizes, Size{growth, max(0, last-m.before)})
	return outcome{cloche: Figure{Sizes: sizes}}, nil
}
