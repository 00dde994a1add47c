package headline

import (
	"testing"
	"time"

	"cloche.dev/cloche/runtime/sandbox"
)

func TestSentence(t *testing.T) {
	const gb = 1_000_000_000
	for _, tt := range []struct {
		name  string
		exit  sandbox.Exit
		limit time.Duration
		want  string
	}{
		{"well", sandbox.Exit{}, time.Minute, "exit 0"},
		{"code", sandbox.Exit{Code: 255}, time.Minute, "exit 255"},
		{
			"crash",
			sandbox.Exit{Signal: 11},
			time.Minute,
			"ended by signal 11 (SIGSEGV: segmentation fault); import faulthandler and call faulthandler.enable() first to see where",
		},
		{"killed", sandbox.Exit{Signal: 9}, time.Minute, "ended by signal 9 (SIGKILL: killed)"},
		{"signal without a name", sandbox.Exit{Signal: 40}, time.Minute, "ended by signal 40"},
		{"time", sandbox.Exit{TimedOut: true}, time.Minute, "ran past its 60 s limit; pass a larger timeout_seconds (up to 3,600), or do less in one call"},
		{"long time", sandbox.Exit{TimedOut: true}, time.Hour, "ran past its 3,600 s limit; do less in one call"},
		{"odd time", sandbox.Exit{TimedOut: true}, 1500 * time.Millisecond, "ran past its 1.5 s limit; pass a larger timeout_seconds (up to 3,600), or do less in one call"},
		{"shortest time", sandbox.Exit{TimedOut: true}, 100 * time.Millisecond, "ran past its 0.1 s limit; pass a larger timeout_seconds (up to 3,600), or do less in one call"},
		{"memory", sandbox.Exit{OutOfMemory: true, MemoryLimit: gb, MemoryPeak: gb}, time.Minute, "out of memory (limit 1 GB, peak 1 GB); work on less at a time"},
		{"memory, peak unknown", sandbox.Exit{OutOfMemory: true, MemoryLimit: gb}, time.Minute, "out of memory (limit 1 GB); work on less at a time"},
		{"memory, nothing known", sandbox.Exit{OutOfMemory: true}, time.Minute, "out of memory; work on less at a time"},
		{"code, and memory", sandbox.Exit{Code: 1, MemoryLimit: gb, MemoryPeak: gb}, time.Minute, "exit 1; a process of it was ended: out of memory (limit 1 GB, peak 1 GB); work on less at a time"},
		{
			"time, and memory",
			sandbox.Exit{TimedOut: true, MemoryLimit: gb},
			time.Hour,
			"ran past its 3,600 s limit; do less in one call; a process of it was ended: out of memory (limit 1 GB); work on less at a time",
		},
		{"stopped", sandbox.Exit{Stopped: true}, time.Minute, "stopped before its end, because the client or the server asked for it"},
		{"lost", sandbox.Exit{Lost: "its first process ended"}, time.Minute, "the sandbox ended: its first process ended; the next call gets a new one"},
		{"lost for a reason of several lines", sandbox.Exit{Lost: "a\nb]"}, time.Minute, `the sandbox ended: a\u000ab\u005d; the next call gets a new one`},
		{
			"time, and the sandbox",
			sandbox.Exit{TimedOut: true, Lost: "x"},
			time.Minute,
			"ran past its 60 s limit; pass a larger timeout_seconds (up to 3,600), or do less in one call; the sandbox ended with it, the next call gets a new one",
		},
		{
			"memory, and the sandbox",
			sandbox.Exit{OutOfMemory: true, Lost: "x"},
			time.Minute,
			"out of memory; work on less at a time; the sandbox ended with it, the next call gets a new one",
		},
		{
			"stopped, and the sandbox",
			sandbox.Exit{Stopped: true, Lost: "x"},
			time.Minute,
			"stopped before its end, because the client or the server asked for it; the sandbox ended with it, the next call gets a new one",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Sentence(tt.exit, tt.limit, time.Hour); got != tt.want {
				t.Errorf("Sentence() =\n%s\nwant\n%s", got, tt.want)
			}
			if good := tt.exit == (sandbox.Exit{}); Good(tt.exit) != good {
				t.Errorf("Good() = %v, want %v", !good, good)
			}
		})
	}
}
