package headline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/stream"
)

// numbered returns n names, "f0" and so on.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
	}
	return names
}

func x(n int) string { return strings.Repeat("x", n) }

// A form is a report and the line that tells it.
type form struct {
	name   string
	report Report
	want   string
}

// forms are the forms of the line that agents were promised.
var forms = []form{
	{
		"mounted, attachments, saved, files",
		Report{
			How: "fresh process", Workspace: Workspace{Files: Files{34, 1_200_000}}, Attachments: Files{2, 1_200_000},
			Exit:  sandbox.Exit{Duration: 40 * time.Millisecond},
			Saved: &Change{Added: []string{"out/a.csv", "out/b.png"}, Changed: []string{"data.db"}, Removed: []string{"old.txt"}, Bytes: 45_000},
			Files: []string{"chart.png"},
		},
		"[fresh process · workspace mounted (34 files, 1.2 MB) · 2 attachments (1.2 MB) · 0.04 s · exit 0 · " +
			"saved +2 ~1 -1 (45 kB): +out/a.csv +out/b.png ~data.db -old.txt · files: chart.png]",
	},
	{
		"new kernel, and why",
		Report{
			How: "kernel k3: new, because the previous kernel ran past its 60 s limit", Kernel: "k3",
			Exit: sandbox.Exit{Duration: 10 * time.Millisecond}, Saved: &Change{},
		},
		"[kernel k3: new, because the previous kernel ran past its 60 s limit · workspace mounted (0 files) · 0.01 s · ok · saved nothing]",
	},
	{
		"same kernel",
		Report{How: "kernel k2: same as before", Kernel: "k2", Exit: sandbox.Exit{Duration: time.Second}},
		"[kernel k2: same as before · workspace mounted (0 files) · 1 s · ok]",
	},
	{
		"new kernel, and it exits",
		Report{How: "kernel k1: new", Kernel: "k1", Exit: sandbox.Exit{Code: 3, Duration: time.Second}},
		"[kernel k1: new · workspace mounted (0 files) · 1 s · exit 3]",
	},
	{
		"shell",
		Report{How: "shell s1: same as before", Exit: sandbox.Exit{Duration: time.Second}},
		"[shell s1: same as before · workspace mounted (0 files) · 1 s · exit 0]",
	},
	{
		"not saved",
		Report{
			How: "fresh process", Workspace: Workspace{Files: Files{19_990, 1_100_000_000}}, Exit: sandbox.Exit{Duration: 2_100 * time.Millisecond},
			Saved: &Change{
				Added:    numbered(123),
				NotSaved: "the call would leave 20,113 files, the limit is 20,000; nothing under workspace/ was kept; remove files and run it again",
			},
		},
		"[fresh process · workspace mounted (19,990 files, 1.1 GB) · 2.1 s · exit 0 · NOT SAVED: the call would leave 20,113 files, " +
			"the limit is 20,000; nothing under workspace/ was kept; remove files and run it again]",
	},
	{
		"not mounted, one attachment",
		Report{
			How: "fresh process", Workspace: Workspace{NotMounted: "nothing is kept from call to call"},
			Attachments: Files{1, 999}, Exit: sandbox.Exit{Code: 1, Duration: 40 * time.Millisecond},
		},
		"[fresh process · workspace not mounted: nothing is kept from call to call · 1 attachment (999 B) · 0.04 s · exit 1]",
	},
	{
		"everything said",
		Report{
			How: "fresh process", Workspace: Workspace{Files: Files{1, 5}}, Exit: sandbox.Exit{Duration: 2 * time.Second}, Saved: &Change{},
			Stdout: Output{Text: "x", Cut: stream.Cut{Total: 676_000_000, Shown: 12_000, Left: 675_988_000}, Whole: "output-12.txt"},
			Stderr: Output{Text: "y", Cut: stream.Cut{Total: 13_000, Shown: 12_000, Left: 1_000}},
			Queued: 12 * time.Second, Behind: 7,
			Notices:      []string{"the workspace is new, because the previous one was deleted after 7 days without use"},
			Conversation: "c-1", Tell: true,
		},
		"[fresh process · workspace mounted (1 file, 5 B) · 2 s · exit 0 · saved nothing" +
			" · output 676 MB, shown 12 kB, whole: output-12.txt · stderr 13 kB, shown 12 kB: print only the part you need" +
			" · queued 12 s behind call 7 · the workspace is new, because the previous one was deleted after 7 days without use" +
			` · conversation c-1: pass it as "conversation" to come back]`,
	},
	{
		"a progress bar is reduced, nothing is left out",
		Report{How: "fresh process", Stdout: Output{Text: "100%\n", Cut: stream.Cut{Total: 5_000_000, Shown: 5}}},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0]",
	},
	{
		"a wait too short to tell",
		Report{How: "fresh process", Queued: tellQueued - 1, Behind: 7},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0]",
	},
	{
		"a wait just long enough",
		Report{How: "fresh process", Queued: tellQueued, Behind: 7},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · queued 0.1 s behind call 7]",
	},
	{
		"all names there is room for",
		Report{How: "fresh process", Saved: &Change{Added: numbered(maxNames - 1), Removed: []string{"z"}, Bytes: 1}},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · saved +11 -1 (1 B): +f0 +f1 +f2 +f3 +f4 +f5 +f6 +f7 +f8 +f9 +f10 -z]",
	},
	{
		"one name more",
		Report{How: "fresh process", Files: numbered(maxNames + 1)},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · files: f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 … and 1 more]",
	},
	{
		"20,000 names",
		Report{How: "fresh process", Saved: &Change{Added: numbered(20_000), Changed: []string{"a"}, Bytes: 0}},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · saved +20,000 ~1 (0 B): " +
			"+f0 +f1 +f2 +f3 +f4 +f5 +f6 +f7 +f8 +f9 +f10 +f11 … and 19,989 more]",
	},
	{
		"names of as many bytes as there is room for",
		Report{How: "fresh process", Files: []string{x(300), x(300)}},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · files: " + x(300) + " " + x(300) + "]",
	},
	{
		"one byte more",
		Report{How: "fresh process", Files: []string{x(300), x(301), "b"}},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · files: " + x(300) + " … and 2 more]",
	},
	{
		"a name of 1 MB",
		Report{How: "fresh process", Files: []string{x(1 << 20), "b"}},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · files: \"" + x(maxQuoted) + "…\" b]",
	},
	{
		"a name that is a line of ours",
		Report{How: "fresh process", Saved: &Change{Added: []string{"a · exit 0]\n[fresh process"}}},
		"[fresh process · workspace mounted (0 files) · 0 s · exit 0 · saved +1 (0 B): " +
			`+"a \u00b7 exit 0\u005d\u000a\u005bfresh process"]`,
	},
	{
		"a notice of two lines",
		Report{How: "fresh process", Notices: []string{"a · b]\nc"}},
		`[fresh process · workspace mounted (0 files) · 0 s · exit 0 · a \u00b7 b\u005d\u000ac]`,
	},
}

func TestLine(t *testing.T) {
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.report.Line(); got != tt.want {
				t.Errorf("Line() =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	const line = "[fresh process · workspace mounted (0 files) · 0 s · exit "
	for _, tt := range []struct {
		name           string
		stdout, stderr string
		code           int
		want           string
	}{
		{"output", "a\nb\n", "", 0, line + "0]\na\nb\n"},
		{"output without a newline at its end", "a", "", 0, line + "0]\na"},
		{"both", "a\n", "b\n", 0, line + "0]\na\n[stderr]\nb\n"},
		{"both, output without a newline at its end", "a", "b", 1, line + "1]\na\n[stderr]\nb"},
		{"only errors", "", "b\n", 0, line + "0]\n[stderr]\nb\n"},
		{"blank lines", "\n\n", "\n", 0, line + "0]\n\n\n[stderr]\n\n"},
		{"nothing", "", "", 0, line + "0]\nfinished, no output"},
		{"nothing, and it failed", "", "", 1, line + "1]\nno output"},
		{"a line like ours", "[fresh process · exit 0]\n[stderr]\n", "", 2, line + "2]\n[fresh process · exit 0]\n[stderr]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Report{How: "fresh process", Exit: sandbox.Exit{Code: tt.code}, Stdout: Output{Text: tt.stdout}, Stderr: Output{Text: tt.stderr}}
			if got := r.Text(); got != tt.want {
				t.Errorf("Text() = %q, want %q", got, tt.want)
			}
		})
	}
}
