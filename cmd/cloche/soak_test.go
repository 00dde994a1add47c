package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/need"
)

// soakVariable says how long TestSoak is to take: "1h" for what is run by hand.
const soakVariable = "CLOCHE_SOAK"

// mixed are the calls of a soak. Each says how its answer has to be.
var mixed = []struct {
	name, code string
	seconds    float64
	fresh      bool // in a new conversation
	good       func(a answer) bool
}{
	{name: "sum", code: "print(1+1)", good: func(a answer) bool { return a.Stdout == "2\n" }},
	{name: "data", code: "import json; d = json.dumps(list(range(50_000))); print(len(json.loads(d)))", good: func(a answer) bool { return a.Stdout == "50000\n" }},
	{name: "files", code: "for i in range(200): open(f'/tmp/{i}', 'w').write('x' * 1000)\nimport os; print(len(os.listdir('/tmp')) > 200)", good: func(a answer) bool { return a.Stdout == "True\n" }},
	{name: "programs", code: "import subprocess; print(sum(subprocess.run(['true']).returncode for _ in range(5)))", good: func(a answer) bool { return a.Stdout == "0\n" }},
	{name: "processes left", code: "import subprocess; [subprocess.Popen(['sleep', '60']) for _ in range(5)]; print('left')", good: func(a answer) bool { return a.Stdout == "left\n" }},
	{name: "error", code: "1/0", good: func(a answer) bool { return strings.Contains(a.Stderr, "ZeroDivisionError") }},
	{name: "flood", code: "for _ in range(2000): print('y' * 1000)", good: func(a answer) bool { return strings.HasPrefix(a.Stdout, "yyy") }},
	{name: "memory", code: "x = bytearray(300_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint(len(x))", good: func(a answer) bool { return a.Stdout == "300000000\n" }},
	{name: "time limit", code: "while True: pass", seconds: 0.2, good: func(a answer) bool { return a.Exit.Reason == "timeout" }},
	{name: "first process", code: "import os; os.kill(0, 9)", good: func(a answer) bool { return !a.isError }},
	{name: "new conversation", code: "print(6*7)", fresh: true, good: func(a answer) bool { return a.Stdout == "42\n" }},
}

// TestSoak makes mixed calls at half load and wants nothing to grow: neither the
// memory of the server, its shim and its template, nor their descriptors, nor
// mounts, nor control groups, nor processes. Times are told, not judged.
func TestSoak(t *testing.T) {
	length := 10 * time.Second
	text := os.Getenv(soakVariable)
	if text == "" {
		need.Long(t)
	} else {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", soakVariable, err)
		}
	}
	need.BothUsers(t, func(t *testing.T) {
		s := serve(t, "[sandbox]\nidle = \"5s\"\n", "")
		k := &soak{s: s, took: map[string][]time.Duration{}}
		k.calls(t, length/4) // until all is there that is made once
		begin := k.look(t)
		k.tell(t, begin, "warm")
		for part := range 3 {
			k.calls(t, length/4)
			k.tell(t, k.look(t), fmt.Sprintf("part %d", part+1))
		}
		k.look(t).within(t, begin)
	})
}

// A soak is a server with calls.
type soak struct {
	s *server

	mu   sync.Mutex
	took map[string][]time.Duration // mu; by the name of the call
}

// calls makes calls in as many conversations as there are processors. After each
// one it rests for as long as that took.
func (k *soak) calls(t *testing.T, length time.Duration) {
	t.Helper()
	end := time.Now().Add(length)
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			conversation := "new"
			for time.Now().Before(end) && !t.Failed() {
				call := mixed[rand.IntN(len(mixed))]
				args := map[string]any{"code": call.code, "conversation": conversation}
				if call.fresh {
					args["conversation"] = "new"
				}
				if call.seconds > 0 {
					args["timeout_seconds"] = call.seconds
				}
				begin := time.Now()
				a, err := k.s.call(args)
				took := time.Since(begin)
				if err != nil || !call.good(a) {
					t.Errorf("%s: %v %.500s", call.name, err, a.text)
				}
				if a.Conversation != "" {
					conversation = a.Conversation
				}
				k.mu.Lock()
				k.took[call.name] = append(k.took[call.name], took)
				k.mu.Unlock()
				<-time.After(took)
			}
		})
	}
	all.Wait()
}

// A state is what a server has.
type state struct{ memory, descriptors, processes, mounts, groups int64 }

// look waits until sandboxes that nobody uses have ended, and tells what is left.
func (k *soak) look(t *testing.T) (now state) {
	t.Helper()
	<-time.After(7 * time.Second) // sandbox.idle, and what it takes to end one
	pids := []process{{pid: k.s.cmd.Process.Pid, name: "cloche"}}
	for _, p := range append(pids, descendants(k.s.cmd.Process.Pid)...) {
		m := memory{name: p.name, pid: p.pid}
		now.processes++
		now.memory += m.look(t, "VmRSS")
		now.descriptors += count(fmt.Sprintf("/proc/%d/fd/*", p.pid))
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", k.s.shim()))
	if err != nil {
		t.Fatal(err)
	}
	now.mounts = int64(strings.Count(string(text), "\n"))
	for _, name := range k.s.holdings().groups {
		for _, dir := range groups(name) {
			now.groups += count(filepath.Join(dir, "*/"))
		}
	}
	return now
}

func count(pattern string) int64 {
	names, err := filepath.Glob(pattern)
	if err != nil {
		panic(err) // the pattern is wrong
	}
	return int64(len(names))
}

// tell logs what there is, and how long the calls since the last time took.
func (k *soak) tell(t *testing.T, now state, when string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	t.Logf("%s: %.1f MB in %d processes, %d descriptors, %d mounts, %d control groups", when, mb(now.memory), now.processes, now.descriptors, now.mounts, now.groups)
	for _, call := range mixed {
		if all := k.took[call.name]; len(all) > 0 {
			slices.Sort(all)
			t.Logf("  %-18s %5d calls, median %7.1f ms, p99 %7.1f ms", call.name, len(all),
				all[len(all)/2].Seconds()*1e3, all[len(all)*99/100].Seconds()*1e3)
		}
	}
	clear(k.took)
}

// within checks that there is no more than there was at the beginning, but for
// what may be there by chance: a sandbox that is just being made or ended.
func (s state) within(t *testing.T, begin state) {
	t.Helper()
	const sandbox = 2 // processes
	for _, c := range []struct {
		what           string
		have, had, may int64
	}{
		{"bytes of memory", s.memory, begin.memory, mayGrow},
		{"processes", s.processes, begin.processes, sandbox},
		{"descriptors", s.descriptors, begin.descriptors, 32},
		{"mounts", s.mounts, begin.mounts, 0},
		{"control groups", s.groups, begin.groups, 12},
	} {
		if c.have > c.had+c.may {
			t.Errorf("%d %s, %d at the beginning; want %d more at most", c.have, c.what, c.had, c.may)
		}
	}
}
