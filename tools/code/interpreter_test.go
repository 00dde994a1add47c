package code

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/conversation"
	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/headline"
	"cloche.dev/cloche/tools/schema"
)

// A bench is the tool code_interpreter at work in sandboxes of fake.
type bench struct {
	fake   *sandboxtest.Fake
	pool   *pool.Pool
	set    *conversation.Set
	policy config.Config
	tool   tools.Tool
}

func newBench(t *testing.T, fake *sandboxtest.Fake) *bench {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := &bench{fake: fake, policy: config.Default()}
	b.pool = pool.New(t.Context(), pool.Options{Runner: fake, Log: log})
	b.set = conversation.NewSet(t.Context(), conversation.Options{Pool: b.pool, Log: log})
	t.Cleanup(func() {
		b.set.Close(context.Background())
		b.pool.Close(context.Background())
		if n := len(fake.Live()); n > 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	b.policy.Pool.Warm = 0
	b.tool = Interpreter(b.pool)
	return b
}

// call calls the tool in conversation c, arguments checked as the chain does.
func (b *bench) call(t *testing.T, c *conversation.Conversation, arguments string) (tools.Result, error) {
	t.Helper()
	checks, err := schema.Compile(b.tool.Schema)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := checks.Check(json.RawMessage(arguments))
	if err != nil {
		return tools.Result{}, err
	}
	call := &tools.Call{Tool: b.tool.Name, Arguments: checked, Policy: &b.policy, Notices: []string{"a notice"}}
	if err := b.tool.Check(call); err != nil {
		return tools.Result{}, err
	}
	if text := string(call.Arguments); strings.Contains(text, `"code":"1`) {
		t.Errorf("once they are read the arguments are still there: %s", text)
	}
	turn, err := c.Enter(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Leave()
	call.Conversation, call.Number, call.Turn = c, c.Begin(), turn
	return b.tool.Run(t.Context(), call)
}

func TestInterpreter(t *testing.T) {
	fake := &sandboxtest.Fake{Call: func(_ *sandboxtest.FakeBox, code string, stdout, stderr io.Writer, _ <-chan struct{}) int {
		_, _ = io.WriteString(stdout, "ran "+code+"\n")
		_, _ = io.WriteString(stderr, "\rbar\x1b[2K\r100%\n")
		return 3 << 8
	}}
	b := newBench(t, fake)
	c := b.set.New("local")
	for i, tell := range []string{" · conversation " + c.ID + `: pass it as "conversation" to come back`, ""} {
		r, err := b.call(t, c, `{"code":"a && b"}`)
		if err != nil {
			t.Fatal(err)
		}
		report, ok := r.Structured.(headline.Structured)
		if !ok || r.IsError || len(r.Content) != 1 {
			t.Fatalf("call %d = %+v, want a text and a report, and no error of the tool", i+1, r)
		}
		want := "[fresh process · workspace not mounted: nothing is kept from call to call · T · exit 3 · a notice" + tell + "]\n" +
			"ran a && b\n[stderr]\n100%\n"
		got := seconds.ReplaceAllString(r.Content[0].Text, "· T ·")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("text of call %d (-want +got):\n%s", i+1, diff)
		}
		if report.Conversation != c.ID || report.Call != i+1 || report.Stdout != "ran a && b\n" || report.Stderr != "100%\n" || *report.Exit.Code != 3 {
			t.Errorf("report of call %d = %+v", i+1, report)
		}
	}
}

// seconds matches the time in the head line.
var seconds = regexp.MustCompile(`· [0-9.]+ s ·`)

func TestOutputIsBounded(t *testing.T) {
	fake := &sandboxtest.Fake{Call: func(_ *sandboxtest.FakeBox, _ string, stdout, stderr io.Writer, _ <-chan struct{}) int {
		_, _ = io.WriteString(stdout, strings.Repeat("x", 150_000))
		_, _ = io.WriteString(stderr, strings.Repeat("y", 12_000))
		return 0
	}}
	b := newBench(t, fake)
	r, err := b.call(t, b.set.New("local"), `{"code":""}`)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(r.Content[0].Text, "\n")
	if want := "· output 150 kB, shown 12 kB: print only the part you need ·"; !strings.Contains(head, want) || strings.Contains(head, "stderr") {
		t.Errorf("head line %s, want %s and nothing of stderr", head, want)
	}
	if n := len(r.Content[0].Text); n > 24_600 {
		t.Errorf("the text has %d bytes, want the two limits and little more", n)
	}
}

// TestTimeouts tries the limits of a call's time, and one past each.
func TestTimeouts(t *testing.T) {
	b := newBench(t, new(sandboxtest.Fake))
	c := b.set.New("local")
	for _, arguments := range []string{"0.1", "1", "60", "3600", `"5"`, "null"} {
		if _, err := b.call(t, c, `{"code":"1","timeout_seconds":`+arguments+`}`); err != nil {
			t.Errorf("timeout_seconds %s = %v, want it to be taken", arguments, err)
		}
	}
	for arguments, text := range map[string]string{
		"0":       "timeout_seconds is 0 and must be from 0.1 to 3600; leave it out for 60",
		"-1":      "timeout_seconds is -1 and must be",
		"0.0999":  "timeout_seconds is 0.0999 and must be",
		"3600.01": "timeout_seconds is 3600.01 and must be",
		"1e12":    "timeout_seconds is 1000000000000 and must be",
		"true":    "must be a number, not true",
		`"soon"`:  `must be a number, not "soon"`,
	} {
		_, err := b.call(t, c, `{"code":"1","timeout_seconds":`+arguments+`}`)
		wantInvalid(t, err, text)
	}
	b.policy.Calls.MaxTimeout = config.Duration(10 * time.Second)
	_, err := b.call(t, c, `{"code":"1","timeout_seconds":10.5}`)
	wantInvalid(t, err, "must be from 0.1 to 10; leave it out for 10")
}

func TestCodeLength(t *testing.T) {
	b := newBench(t, new(sandboxtest.Fake))
	b.policy.Calls.MaxCode = 10
	c := b.set.New("local")
	if _, err := b.call(t, c, `{"code":"1234567890"}`); err != nil {
		t.Errorf("code at the limit = %v", err)
	}
	_, err := b.call(t, c, `{"code":"12345678901"}`)
	wantInvalid(t, err, "code has 11 bytes, at most 10 are allowed")
	if n := len(b.fake.Boxes()); n != 1 {
		t.Errorf("%d sandboxes were started, want 1", n)
	}
	// Code of which each character is written as two or three bytes still fits.
	if n := MaxCall(&b.policy); n < 2*10+10_000 {
		t.Errorf("MaxCall = %d", n)
	}
}

func wantInvalid(t *testing.T, err error, text string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind() != fault.Invalid || !strings.Contains(f.Text(), text) {
		t.Errorf("error = %v, want a fault of kind invalid that says %q", err, text)
	}
}

// TestTimeLimit holds that the limit of the call is that of its code.
func TestTimeLimit(t *testing.T) {
	fake := &sandboxtest.Fake{Call: func(_ *sandboxtest.FakeBox, _ string, stdout, _ io.Writer, stop <-chan struct{}) int {
		_, _ = io.WriteString(stdout, "before\n")
		<-stop
		return int(unix.SIGKILL)
	}}
	b := newBench(t, fake)
	r, err := b.call(t, b.set.New("local"), `{"code":"while True: pass","timeout_seconds":0.1}`)
	if err != nil {
		t.Fatal(err)
	}
	report := r.Structured.(headline.Structured)
	const want = "ran past its 0.1 s limit; pass a larger timeout_seconds (up to 3,600), or do less in one call"
	if report.Exit.Reason != "timeout" || report.Exit.Text != want || report.Stdout != "before\n" {
		t.Errorf("report = %+v, want what was printed before, and %q", report, want)
	}
}

func TestNotRun(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	busy := fault.New(fault.Busy, "all are in use")
	for _, tt := range []struct {
		name string
		err  error
		got  error
		want fault.Kind
	}{
		{"fault", busy, notRun(t.Context(), busy), fault.Busy},
		{"fault of a call that was cancelled", busy, notRun(ended, busy), fault.Busy},
		{"cancelled", context.Canceled, notRun(ended, context.Canceled), fault.Gone},
		{"our own fault", io.ErrUnexpectedEOF, notRun(t.Context(), io.ErrUnexpectedEOF), fault.Internal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if fault.KindOf(tt.got) != tt.want || !errors.Is(tt.got, tt.err) {
				t.Errorf("notRun(%v) = %v, want one of kind %s with it as cause", tt.err, tt.got, tt.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		call := &tools.Call{Progress: func(message string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, message)
		}}
		end := progress(t.Context(), call, time.Minute)
		<-time.After(2500 * time.Millisecond)
		end()
		end()
		<-time.After(time.Hour)
		want := []string{"running for 1 s of at most 60 s", "running for 2 s of at most 60 s"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		// A client that did not ask is not told.
		progress(t.Context(), &tools.Call{}, time.Minute)()
	})
}
