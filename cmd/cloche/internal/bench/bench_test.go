package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/cmd/internal/repotest"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/shim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLine measures made-up rows.
func TestLine(t *testing.T) {
	broken := errors.New("it broke\non two lines")
	for _, test := range []struct {
		name    string
		row     row
		options Options
		verdict Verdict
		why     string
		begun   bool
		scale   scale // that it was measured at
	}{
		{
			"quick",
			row{quick: scale{3, 0}, full: scale{200, 0}},
			Options{},
			Within, "", true,
			scale{3, 0},
		},
		{
			"full",
			row{quick: scale{3, 10}, full: scale{200, 100}},
			Options{Full: true},
			Within, "", true,
			scale{200, 100},
		},
		{
			"less than the bar is for",
			row{quick: scale{3, 10}, full: scale{200, 100}},
			Options{},
			Unjudged, "the bar is for the numbers of a full run", true,
			scale{3, 10},
		},
		{
			"rounds that were asked for",
			row{quick: scale{3, 0}, full: scale{200, 0}},
			Options{Rounds: 7},
			Within, "", true,
			scale{7, 0},
		},
		{
			"only in a full run",
			row{full: scale{200, 0}},
			Options{Rounds: 7},
			LeftOut, "only a full run measures it", false,
			scale{},
		},
		{
			"what the host lacks",
			row{quick: scale{3, 0}, full: scale{200, 0}, without: func(*bench) string { return "no libraries" }},
			Options{},
			LeftOut, "no libraries", false,
			scale{},
		},
		{
			"what the host has",
			row{quick: scale{3, 0}, full: scale{200, 0}, without: func(*bench) string { return "" }},
			Options{},
			Within, "", true,
			scale{3, 0},
		},
		{
			"an error",
			row{quick: scale{3, 0}, full: scale{200, 0}, measure: func(context.Context, *bench, scale) (outcome, error) { return outcome{}, broken }},
			Options{},
			Failed, "it broke on two lines", true,
			scale{},
		},
		{
			"too much for the host",
			row{quick: scale{3, 0}, full: scale{200, 0}, measure: func(context.Context, *bench, scale) (outcome, error) {
				return outcome{}, fmt.Errorf("warm: %w", unfit("too little memory"))
			}},
			Options{},
			LeftOut, "too little memory", true,
			scale{},
		},
		{
			"without an end",
			row{quick: scale{3, 0}, full: scale{200, 0}, measure: func(ctx context.Context, _ *bench, _ scale) (outcome, error) {
				<-ctx.Done()
				return outcome{}, errors.New("it was told to end")
			}},
			Options{},
			Failed, "a row may take 1m0s", true,
			scale{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at scale
				r := test.row
				r.name, r.what = "one", "one thing"
				if r.measure == nil {
					r.measure = func(_ context.Context, _ *bench, s scale) (outcome, error) {
						at = s
						return outcome{cloche: took(time.Second)}, nil
					}
				}
				var told []string
				b := &bench{o: test.options}
				b.o.Progress = func(text string) { told = append(told, text) }
				l := b.line(t.Context(), &r, time.Minute)
				if l.Verdict != test.verdict || l.Why != test.why || at != test.scale {
					t.Errorf("measured at %v: %s, %q, want at %v: %s, %q", at, l.Verdict, l.Why, test.scale, test.verdict, test.why)
				}
				if begun := cmp.Equal(told, []string{"one: one thing"}); begun != test.begun || !begun && told != nil {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// TestInTurns: the two take turns, the first round does not count, and a failure
// ends it.
func TestInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order strings.Builder
		one := func(name string, took time.Duration) measured {
			return func(context.Context) (time.Duration, error) {
				order.WriteString(name)
				if order.Len() <= 2 {
					return time.Hour, nil
				}
				return took, nil
			}
		}
		o, err := inTurns(t.Context(), 3, one("a", time.Second), one("b", 2*time.Second))
		if err != nil || order.String() != "abababab" {
			t.Errorf("the order is %q, %v", order.String(), err)
		}
		want := func(d time.Duration) *Times { return &Times{3, Millis(d), Millis(d), Millis(d)} }
		if diff := cmp.Diff(outcome{cloche: Figure{Times: want(time.Second)}, peer: Figure{Times: want(2 * time.Second)}}, o, cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("measured (-want +got):\n%s", diff)
		}
		order.Reset()
		if o, err := inTurns(t.Context(), 2, one("a", time.Second), nil); err != nil || order.String() != "aaa" || o.peer.Times != nil {
			t.Errorf("without a peer: %q, %+v, %v", order.String(), o, err)
		}
		order.Reset()
		broken := errors.New("broken")
		if _, err := inTurns(t.Context(), 2, one("a", 0), func(context.Context) (time.Duration, error) { return 0, broken }); !errors.Is(err, broken) || order.String() != "a" {
			t.Errorf("with a peer that fails: %q, %v", order.String(), err)
		}
	})
}

// TestRuncHasTheLimits: runc gets the limits that the shim can set, in its
// group, and none where there is none.
func TestRuncHasTheLimits(t *testing.T) {
	limits := sandbox.Limits{MemoryBytes: 1 << 30, CPUs: 1.5, PIDs: 100}
	got := resources(shim.Setup{Cgroup: "/cloche/i1", Limits: cgroup.Limits{Memory: true, CPU: true, PIDs: true}}, limits)
	want := object{
		"memory": object{"limit": int64(1 << 30)}, "cpu": object{"period": 100_000, "quota": int64(150_000)}, "pids": object{"limit": int64(100)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with all limits (-want +got):\n%s", diff)
	}
	if got := resources(shim.Setup{}, limits); len(got) != 0 {
		t.Errorf("without control groups the limits are %v", got)
	}
	for group, want := range map[string]any{"": nil, "/cloche/i1": "/cloche/i1/runc"} {
		linux := configOf(nil, shim.Setup{Cgroup: group}, limits)["linux"].(object)
		if got := linux["cgroupsPath"]; got != want {
			t.Errorf("below the group %q it is %v, want %v", group, got, want)
		}
	}
}

// TestReadme holds that README.md has each row, as a quick or a full run
// prints it.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(build.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := repotest.Section(string(text), "bench")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !strings.Contains(table, "| "+r.named(r.quick)+" ") && !strings.Contains(table, "| "+r.named(r.full)+" ") {
			t.Errorf("README.md has no line for %s; put in what cloche bench --full prints", r.name)
		}
	}
}
