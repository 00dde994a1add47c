package main_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// TestBursts makes more calls than anybody needs, one after the other and at
// once. Each has its answer; another conversation is answered promptly
// meanwhile, and neither the server nor its shim takes more memory than it may.
func TestBursts(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean+"[calls]\nwaiting = 200\n", "")
		w := s.watch()
		for _, test := range []struct {
			name string
			make func(s *server)
		}{
			{"300 calls in a row", func(s *server) {
				for n := range 300 {
					if a := s.run(fmt.Sprint(n)); a.Stdout != fmt.Sprintln(n) {
						s.t.Errorf("call %d printed %q", n, a.Stdout)
					}
				}
			}},
			{"200 calls at once", func(s *server) {
				s.atOnce(200, func() map[string]any { return map[string]any{"code": "pass"} })
			}},
			{"new conversations at once", func(s *server) {
				s.atOnce(times(50, 100), func() map[string]any { return map[string]any{"code": "pass", "conversation": "new"} })
			}},
			{"outputs at once", func(s *server) {
				s.atOnce(times(30, 60), func() map[string]any {
					return map[string]any{"code": "print('x' * 5_000_000)", "conversation": "new"}
				})
			}},
			{"many conversations", (*server).manyConversations},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := s.on(t)
				w.during(t, func() {
					test.make(s)
					s.works()
				})
			})
		}
	})
}

// times is how often something is tried: few times for every change, many in the
// long tests.
func times(few, many int) int {
	if need.LongTests() {
		return many
	}
	return few
}

// atOnce makes so many calls at once, each of which must end well.
func (s *server) atOnce(n int, args func() map[string]any) {
	s.t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			a, err := s.call(args())
			if err != nil || a.isError || a.Exit.Code == nil || *a.Exit.Code != 0 {
				s.t.Errorf("call %d: %v %.300s", i, err, a.text)
			}
		})
	}
	all.Wait()
}

// manyConversations begins many, of which few can have a sandbox at a time, and
// goes back to the first.
func (s *server) manyConversations() {
	s.t.Helper()
	seen := map[string]bool{}
	first := ""
	for n := range times(40, 300) {
		a := s.ask(map[string]any{"code": which, "conversation": "new"})
		if a.Call != 1 || seen[a.Conversation] || !strings.HasPrefix(a.Stdout, "pid:[") {
			s.t.Errorf("conversation %d answered:\n%s", n, a.text)
		}
		seen[a.Conversation] = true
		if n == 0 {
			first = a.Conversation
		}
	}
	if a := s.ask(map[string]any{"code": "6*7", "conversation": first}); a.Call != 2 || a.Stdout != "42\n" {
		s.t.Errorf("back in the first conversation a call answered:\n%s", a.text)
	}
}

// TestLargeCode sends code that is large, at the limit and past it, alone and
// many times at once. The server's memory holds.
func TestLargeCode(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, lean, "") // with the default limit, 4 MB
		w := s.watch()
		const most, code = 4_000_000, "print(len('"
		fill := func(n int) string { return code + strings.Repeat("x", n-len(code)-len("'))")) + "'))" }
		for _, test := range []struct {
			name string
			size int
			says string
		}{
			{"2 MB", 2_000_000, "\n1999986\n"},
			{"the limit", most, "\n3999986\n"},
			{"a byte past the limit", most + 1, "code has 4000001 bytes, at most 4000000 are allowed"},
			{"10 MB", 10_000_000, "the most is 8065536; send less at once"},
			{"60 MB", 60_000_000, "the most is 8065536; send less at once"},
			{"past any message", 70_000_000, "a message may have 64000000 bytes"},
		} {
			t.Run(test.name, func(t *testing.T) {
				if test.size > 50_000_000 {
					need.Long(t)
				}
				s := s.on(t)
				w.during(t, func() {
					a, err := s.call(map[string]any{"code": fill(test.size)})
					if test.size > 8_000_000 {
						if err == nil || !strings.Contains(err.Error(), test.says) {
							t.Errorf("answered %v %.300s, want %q", err, a.text, test.says)
						}
						return
					}
					if err != nil || a.isError != (test.size > most) || !strings.Contains(a.text, test.says) {
						t.Errorf("answered %v %.300s, want %q", err, a.text, test.says)
					}
					s.works()
				})
			})
		}
		t.Run("many at once", func(t *testing.T) {
			s := s.on(t)
			w.during(t, func() {
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						a, err := s.call(map[string]any{"code": fill(2_000_000), "conversation": "new"})
						if err != nil || a.isError && a.Error.Kind != "busy" || !a.isError && a.Stdout != "1999986\n" {
							t.Errorf("answered %v %.300s", err, a.text)
						}
					})
				}
				all.Wait()
				s.works()
			})
		})
	})
}
