package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample is a report with a line of every kind.
func sample() *Report {
	const ms = time.Millisecond
	r := &Report{
		Host: Host{
			Time: "2026-01-02T03:04:05Z", Cloche: "1.2.3", System: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64",
			Architecture: "amd64", Processor: "Z80", Processors: 2, MemoryBytes: 8_000_000_000, Cgroup: 2, Python: "3.11.2", Runc: "1.5.3",
		},
	}
	for _, one := range []struct {
		row   row
		o     outcome
		whole bool
	}{
		{row{name: "call", what: "a call", peer: "bare"}, outcome{cloche: took(5 * ms), peer: took(20 * ms)}, true},
		{row{name: "start", what: "a start", peer: "`runc run`"}, outcome{cloche: took(5 * ms), noPeer: "there is no runc"}, true},
		{row{name: "burst", what: "10 at once", peer: "10 bare"}, outcome{cloche: counted(10, 8, 1, 2500*ms), peer: counted(10, 10, 0, 100*ms)}, true},
		{row{name: "few", what: "2 at once"}, outcome{cloche: counted(2, 2, 0, ms)}, false},
		{row{name: "memory", what: "memory"}, outcome{cloche: sized(private, 1_400_000)}, true},
	} {
		l := Line{Name: one.row.name, What: one.row.what, Beside: one.row.peer}
		switch one.row.name {
		case "memory":
			l.Bar = Bar{Size: private, Bytes: 4_000_000}
		case "burst", "few":
			l.Bar = Bar{P99: Millis(3 * time.Second), NoneRefused: true}
		default:
			l.Bar = Bar{Ratio: 0.7, Aim: 0.5}
		}
		l.fill(one.o, one.whole)
		if c := l.Cloche.Counts; c != nil && c.Failed > 0 {
			c.Failure = "it broke"
		}
		r.Rows = append(r.Rows, l)
	}
	r.Rows = append(r.Rows,
		Line{Name: "large", What: "1,000 at once", Bar: Bar{Results: 100}, Verdict: LeftOut, Why: "only a full run measures it"},
		Line{Name: "broken", What: "what broke", Bar: Bar{Ratio: 1, Below: true}, Verdict: Failed, Why: "the server did not start"},
	)
	return r
}

func TestPrint(t *testing.T) {
	for file, p := range map[string]Printer{"sample.md": Text{}, "sample.json": JSON{}} {
		t.Run(file, func(t *testing.T) {
			var got bytes.Buffer
			if err := p.Print(&got, sample()); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", file)
			if os.Getenv("CLOCHE_UPDATE") == "1" {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHost(t *testing.T) {
	for want, h := range map[string]Host{
		"cloche 1, Linux 6.1 on arm64, 1 processor, 512 MB of memory, control groups of version 1, as root, Python 3.10.1, no runc": {
			Cloche: "1", Kernel: "6.1", Architecture: "arm64", Processors: 1, MemoryBytes: 512_000_000, Cgroup: 1, Root: true, Python: "3.10.1",
		},
		"cloche 1, Debian, Linux 6.1 on amd64, 8 processors (Z80), 4 GB of memory, no control groups, as an ordinary user, Python 3.11.2, runc 1.5.3": {
			Cloche: "1", System: "Debian", Kernel: "6.1", Architecture: "amd64", Processors: 8, Processor: "Z80", MemoryBytes: 4_000_000_000, Python: "3.11.2", Runc: "1.5.3",
		},
	} {
		if got := h.String(); got != want {
			t.Errorf("the host is %q, want %q", got, want)
		}
	}
}
