package headline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/stream"
)

func TestStructured(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report Report
		want   string
	}{
		{
			"well",
			Report{
				How: "fresh process", Workspace: Workspace{NotMounted: "nothing is kept"}, Conversation: "c-1", Call: 3, TimeLimit: time.Minute, MaxTime: time.Hour,
				Exit: sandbox.Exit{Duration: 12_345_678 * time.Nanosecond}, Stdout: Output{Text: "2\n"},
			},
			`{"conversation":"c-1","call":3,"how":"fresh process","exit":{"reason":"exit","code":0,"text":"exit 0"},"seconds":0.0123,` +
				`"stdout":"2\n","stderr":"","workspace":{"mounted":false,"saved":false,"reason":"nothing is kept","files":0,"bytes":0}}`,
		},
		{
			"everything",
			Report{
				How: "kernel k2: same as before", Kernel: "k2", Conversation: "c-1", Call: 9, Tell: true, TimeLimit: time.Minute, MaxTime: time.Hour,
				Workspace: Workspace{Files: Files{34, 1_200_000}}, Attachments: Files{2, 7},
				Exit:   sandbox.Exit{OutOfMemory: true, MemoryLimit: 1e9, MemoryPeak: 1e9, Duration: time.Second},
				Saved:  &Change{Added: []string{"a b", "報"}, Changed: []string{"c"}, Removed: []string{"d"}, Bytes: 45_000},
				Files:  []string{"chart.png"},
				Stdout: Output{Text: "x", Cut: stream.Cut{Total: 676_000_000, Shown: 12_000, Left: 675_988_000}, Whole: "output-9.txt"},
				Stderr: Output{Text: "y", Cut: stream.Cut{Total: 13_000, Shown: 12_000, Left: 1_000}},
				Queued: 12 * time.Second, Behind: 7, Notices: []string{"the workspace is new"},
			},
			`{"conversation":"c-1","call":9,"how":"kernel k2: same as before","kernel":"k2",` +
				`"exit":{"reason":"out_of_memory","text":"out of memory (limit 1 GB, peak 1 GB); work on less at a time"},"seconds":1,` +
				`"stdout":"x","stderr":"y",` +
				`"cut":{"stderr":{"bytes":13000,"shown":12000},"stdout":{"bytes":676000000,"shown":12000,"whole":"output-9.txt"}},` +
				`"workspace":{"mounted":true,"saved":true,"added":["a b","報"],"changed":["c"],"removed":["d"],"saved_bytes":45000,"files":34,"bytes":1200000},` +
				`"read":{"attachments":{"files":2,"bytes":7}},"files":["chart.png"],` +
				`"notices":["output 676 MB, shown 12 kB, whole: output-9.txt","stderr 13 kB, shown 12 kB: print only the part you need",` +
				`"queued 12 s behind call 7","the workspace is new","conversation c-1: pass it as \"conversation\" to come back"]}`,
		},
		{
			"not saved",
			Report{
				How: "fresh process", Workspace: Workspace{Files: Files{1, 2}},
				Exit: sandbox.Exit{Signal: 9}, Saved: &Change{Added: []string{"a"}, Bytes: 5, NotSaved: "too much"},
			},
			`{"conversation":"","call":0,"how":"fresh process","exit":{"reason":"signal","signal":9,"text":"ended by signal 9 (SIGKILL: killed)"},` +
				`"seconds":0,"stdout":"","stderr":"","workspace":{"mounted":true,"saved":false,"reason":"too much","files":1,"bytes":2},"notices":["no output"]}`,
		},
		{
			"more names than there is room for",
			Report{How: "fresh process", Saved: &Change{Added: []string{x(300)}, Changed: []string{x(291)}, Removed: []string{x(9), x(1), "b"}}, Files: numbered(14)},
			`{"conversation":"","call":0,"how":"fresh process","exit":{"reason":"exit","code":0,"text":"exit 0"},"seconds":0,"stdout":"","stderr":"",` +
				`"workspace":{"mounted":true,"saved":true,"added":["` + x(300) + `"],"changed":["` + x(291) + `"],"removed":["xxxxxxxxx"],"more":{"removed":2},"files":0,"bytes":0},` +
				`"files":["f0","f1","f2","f3","f4","f5","f6","f7","f8","f9","f10","f11"],"more_files":2,"notices":["finished, no output"]}`,
		},
		{
			"a name of 1 MB",
			Report{How: "fresh process", Saved: &Change{Added: []string{x(1 << 20)}, Removed: []string{"b"}}, Stdout: Output{Text: "\n"}},
			`{"conversation":"","call":0,"how":"fresh process","exit":{"reason":"exit","code":0,"text":"exit 0"},"seconds":0,"stdout":"\n","stderr":"",` +
				`"workspace":{"mounted":true,"saved":true,"added":["` + x(maxQuoted) + `…"],"removed":["b"],"files":0,"bytes":0}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.report.Structured())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Structured() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReasons holds the words that programs go by.
func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		exit sandbox.Exit
		want string
	}{
		{sandbox.Exit{Code: 3}, `{"reason":"exit","code":3,`},
		{sandbox.Exit{Signal: 11}, `{"reason":"signal","signal":11,`},
		{sandbox.Exit{TimedOut: true, Lost: "x"}, `{"reason":"timeout",`},
		{sandbox.Exit{OutOfMemory: true, Lost: "x"}, `{"reason":"out_of_memory",`},
		{sandbox.Exit{Stopped: true}, `{"reason":"stopped",`},
		{sandbox.Exit{Lost: "x"}, `{"reason":"lost",`},
	} {
		r := Report{Exit: tt.exit, TimeLimit: time.Minute, MaxTime: time.Hour}
		got, err := json.Marshal(r.Structured().Exit)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(got), tt.want+`"text":`) {
			t.Errorf("exit of %+v = %s, want it to begin %s", tt.exit, got, tt.want)
		}
	}
}

// TestEachIsEnough holds that a client which shows only the text and one which
// shows only the structured report tell the same: each part of the line is in
// both, as a sentence or as its values.
func TestEachIsEnough(t *testing.T) {
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.report.Structured()
			told := append([]string{s.How, s.Exit.Text}, s.Notices...)
			text := tt.report.Text()
			for _, part := range told {
				if !strings.Contains(text, part) {
					t.Errorf("%q is in the structured report and not in the text\n%s", part, text)
				}
			}
			told = append(told, reread(s)...)
			for part := range strings.SplitSeq(strings.Trim(tt.report.Line(), "[]"), separator) {
				if !strings.Contains(strings.Join(told, "\n"), part) {
					t.Errorf("%q is in the text and not in the structured report %+v", part, s)
				}
			}
		})
	}
}

// reread makes the parts of the line that the structured report has in values.
func reread(s Structured) []string {
	r := Report{Exit: sandbox.Exit{Duration: time.Duration(s.Seconds * float64(time.Second))}}
	r.Workspace.Files = Files{s.Workspace.Files, s.Workspace.Bytes}
	with := func(names []string, more int) []string {
		all := slices.Concat(names, slices.Repeat([]string{x(maxNameBytes)}, more))
		for i, n := range all {
			all[i] = strings.Replace(n, "…", "xx", 1) // one that was cut is cut again
		}
		return all
	}
	switch w := s.Workspace; {
	case !w.Mounted:
		r.Workspace.NotMounted = w.Reason
	case w.Saved:
		r.Saved = &Change{
			Added: with(w.Added, w.More.Added), Changed: with(w.Changed, w.More.Changed), Removed: with(w.Removed, w.More.Removed), Bytes: w.SavedBytes,
		}
	case w.Reason != "":
		r.Saved = &Change{NotSaved: w.Reason}
	}
	if s.Read != nil {
		r.Attachments = Files{s.Read.Attachments.Files, s.Read.Attachments.Bytes}
	}
	r.Files = with(s.Files, s.MoreFiles)
	return strings.Split(strings.Trim(r.Line(), "[]"), separator)
}
