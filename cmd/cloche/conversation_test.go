package main_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/need"
	"cloche.dev/cloche/tools/mcpclient"
)

// which tells sandboxes apart.
const which = "import os\nprint(os.readlink('/proc/self/ns/pid'))\n"

// TestConversations goes from one conversation to another and back.
func TestConversations(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		for era, version := range eras {
			t.Run(era, func(t *testing.T) {
				s := serve(t, lean, version)
				first := s.run(which)
				if !strings.Contains(first.text, "· conversation "+first.Conversation+": pass it as \"conversation\" to come back]") {
					t.Errorf("the first result does not tell the conversation:\n%s", first.text)
				}
				if again := s.run(which); again.Conversation != first.Conversation || again.Stdout != first.Stdout || strings.Contains(again.text, first.Conversation) {
					t.Errorf("the second call answered:\n%s\nafter:\n%s", again.text, first.text)
				}
				other := s.ask(map[string]any{"code": which, "conversation": "new"})
				if other.Conversation == first.Conversation || other.Stdout == first.Stdout || other.Call != 1 {
					t.Errorf("a new conversation answered:\n%s\nafter:\n%s", other.text, first.text)
				}
				if back := s.ask(map[string]any{"code": which, "conversation": other.Conversation}); back.Stdout != other.Stdout || back.Call != 2 {
					t.Errorf("back in it, a call answered:\n%s\nafter:\n%s", back.text, other.text)
				}
				if present := s.run(which); present.Conversation != first.Conversation || present.Stdout != first.Stdout {
					t.Errorf("without an id, a call answered:\n%s\nafter:\n%s", present.text, first.text)
				}
				s.refuses(map[string]any{"code": which, "conversation": other.Conversation + "x"}, "not_found", `pass "new"`)
				if st := s.status(); st.Conversation != first.Conversation || len(st.Conversations) != 2 {
					t.Errorf("sandbox_status tells of %+v", st)
				}
				s.works()
			})
		}
	})
}

// TestHints has a host name its conversations by what it has: any text, which
// never becomes a path.
func TestHints(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	s := serve(t, lean, "", "--conversation", strings.Repeat("n", 300))
	seen := map[string]string{s.run(which).Conversation: "none"}
	for _, hint := range []string{"a", "A", "../../etc", "/", strings.Repeat("ö", 150), "a\x00b", "a\nb", strings.Repeat("x", 1024-len("hint"))} {
		var id string
		for range 2 {
			a, err := s.call(map[string]any{"code": which}, mcpclient.Meta("cloche/conversation", hint))
			if err != nil || a.isError {
				t.Fatalf("hint %.40q: %v %s", hint, err, a.text)
			}
			if id != "" && a.Conversation != id {
				t.Errorf("hint %.40q led to two conversations", hint)
			}
			id = a.Conversation
		}
		if twin := seen[id]; twin != "" {
			t.Errorf("hints %.40q and %.40q lead to one conversation", hint, twin)
		}
		seen[id] = hint
	}
	a, err := s.call(map[string]any{"code": which}, mcpclient.Meta("cloche/conversation", strings.Repeat("x", 1025)))
	if err != nil || !a.isError || a.Error.Kind != "invalid" || !strings.Contains(a.text, "at most 1024 are allowed") {
		t.Errorf("a hint one byte too long: %v %s", err, a.text)
	}
	s.works()
}

// TestQueue makes 50 calls of a new conversation at once: they share one
// sandbox, run one after the other, and those for which there is no room to
// wait are told so.
func TestQueue(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		const most = 16
		s := serve(t, lean+fmt.Sprintf("[calls]\nwaiting = %d\n", most), "")
		var calls []<-chan outcome
		for range 50 {
			calls = append(calls, s.begin(map[string]any{"code": "import time\nbegin = time.monotonic()\ntime.sleep(0.1)\nprint(begin, time.monotonic())\n" + which}))
		}
		run, busy := 0, 0
		boxes := map[string]bool{}
		var spans [][2]float64
		for _, c := range calls {
			o := <-c
			switch {
			case o.err != nil:
				t.Errorf("no answer: %v", o.err)
			case o.isError && o.Error.Kind == "busy" && strings.Contains(o.text, "16 calls of this conversation are waiting already"):
				busy++
			default:
				var span [2]float64
				var box string
				if _, err := fmt.Sscan(o.whole(t).Stdout, &span[0], &span[1], &box); err != nil {
					t.Fatalf("a call printed %q: %v", o.Stdout, err)
				}
				run++
				boxes[box] = true
				spans = append(spans, span)
			}
		}
		if run < most+1 || busy == 0 || run+busy != len(calls) {
			t.Errorf("%d calls ran and %d were told to come back, of %d", run, busy, len(calls))
		}
		if len(boxes) != 1 {
			t.Errorf("the calls had %d sandboxes", len(boxes))
		}
		for i, a := range spans {
			for _, b := range spans[:i] {
				if a[0] < b[1] && b[0] < a[1] {
					t.Errorf("two calls ran at once: %v and %v", a, b)
				}
			}
		}
		s.works()
	})
}

// TestParallel answers a short call while a long one of another conversation
// runs.
func TestParallel(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean+abrupt, "")
		long := s.begin(map[string]any{"conversation": "new", "code": named("long") + "import time\ntime.sleep(600)"})
		busy(t, s.cmd.Process.Pid, "long")
		begin := time.Now()
		s.works()
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("the short call took %v", took)
		}
		select {
		case o := <-long:
			t.Errorf("the long call was over first: %v %s", o.err, o.text)
		default:
		}
	})
}

// TestManyCalls makes 200 quick calls at once, in 8 conversations; each gets its
// own answer.
func TestManyCalls(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean+"[calls]\nwaiting = 1000\n[pool]\nmax = 8\n", "")
		const conversations, each = 8, 25
		var all sync.WaitGroup
		boxes := make([]map[string]bool, conversations)
		for i := range conversations {
			boxes[i] = map[string]bool{}
			id := s.ask(map[string]any{"code": "", "conversation": "new"}).Conversation
			var mu sync.Mutex
			for j := range each {
				all.Go(func() {
					a, err := s.call(map[string]any{"conversation": id, "code": fmt.Sprintf("print('%d/%d')\n", i, j) + which})
					said, box, _ := strings.Cut(a.Stdout, "\n")
					if err != nil || a.isError || a.Conversation != id || said != fmt.Sprintf("%d/%d", i, j) {
						t.Errorf("call %d of conversation %d: %v %s", j, i, err, a.text)
					}
					mu.Lock()
					defer mu.Unlock()
					boxes[i][box] = true
				})
			}
		}
		all.Wait()
		seen := map[string]bool{}
		for i, of := range boxes {
			if len(of) != 1 {
				t.Errorf("conversation %d had %d sandboxes", i, len(of))
			}
			for box := range of {
				if seen[box] {
					t.Errorf("conversation %d has the sandbox of another one", i)
				}
				seen[box] = true
			}
		}
		s.works()
	})
}

// TestCancel ends a call at its client's wish: it is stopped, one that waits is
// not run, and the next call works.
func TestCancel(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := start(t, lean)
		s.initialize()
		s.say(calls(1, named("unwanted")+"import time\ntime.sleep(600)"))
		p := busy(t, s.cmd.Process.Pid, "unwanted")
		s.say(calls(2, named("waiting")+"print('waited')"))
		for _, id := range []int{2, 1} {
			s.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		}
		s.say(calls(3, "6*7"))
		if got := s.hear(); !strings.Contains(got, `"id":3,`) || !strings.Contains(got, `\n42\n`) {
			t.Errorf("the next call answered %s", got)
		}
		holdings{processes: []process{p}, mounts: mounts()}.gone(t)
	})
}

// TestIdle lets a conversation rest for longer than its sandbox is kept: the next
// call has another one. A call that says nothing for longer than that is none
// that rests.
func TestIdle(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean+"idle = \"1s\"\n", "")
		silent, err := s.call(map[string]any{"code": "import time\ntime.sleep(" + fmt.Sprint(times(2, 50)) + ")\nprint('whole')"})
		if err != nil || silent.Stdout != "whole\n" {
			t.Errorf("a silent call answered %v:\n%s", err, silent.text)
		}
		first := s.run(which)
		await(t, "the end of the sandbox", func() bool {
			inside := func(p process) bool { // the shim's other child is the warm one
				link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.pid))
				return err == nil && link == strings.TrimSpace(first.Stdout)
			}
			return !slices.ContainsFunc(descendants(s.cmd.Process.Pid), inside)
		})
		if a := s.run(which); a.Conversation != first.Conversation || a.Stdout == first.Stdout || !strings.HasPrefix(a.Stdout, "pid:[") {
			t.Errorf("after a rest a call answered:\n%s\nbefore:\n%s", a.text, first.text)
		}
		s.works()
	})
}
