package bench

import (
	"testing"
	"time"
)

// took is a figure of things that took so long, each as long as the others.
func took(d time.Duration) Figure {
	return Figure{Times: &Times{Count: 1, Median: Millis(d), P99: Millis(d), Longest: Millis(d)}}
}

// counted is a figure of calls that were made at once.
func counted(asked, results, refused int, longest time.Duration) Figure {
	f := took(longest)
	f.Counts = &Counts{Asked: asked, Results: results, Refused: refused, Failed: asked - results - refused, Longest: Millis(longest)}
	return f
}

func sized(what string, n int64) Figure { return Figure{Sizes: []Size{{"other", 1 << 40}, {what, n}}} }

func TestBars(t *testing.T) {
	const s = time.Second
	ratio, below := Bar{Ratio: 0.5, Aim: 0.2}, Bar{Ratio: 1, Below: true}
	burst := Bar{P99: Millis(3 * s), NoneRefused: true}
	flood := Bar{Results: 100, Longest: Millis(10 * s)}
	size := Bar{Size: growth, Bytes: flat}
	both := Bar{P99: Millis(s), Size: growth, Bytes: flat}
	for _, test := range []struct {
		name string
		bar  Bar
		o    outcome
		want Verdict
	}{
		{"ratio at the bar", ratio, outcome{cloche: took(s), peer: took(2 * s)}, Within},
		{"ratio past it", ratio, outcome{cloche: took(s + s/100), peer: took(2 * s)}, Above},
		{"less than the peer", below, outcome{cloche: took(s - s/100), peer: took(s)}, Within},
		{"as much as the peer", below, outcome{cloche: took(s), peer: took(s)}, Above},
		{"no peer", below, outcome{cloche: took(s), noPeer: "no runc"}, Unjudged},
		{"p99 at the bar", burst, outcome{cloche: counted(100, 100, 0, 3*s)}, Within},
		{"p99 past it", burst, outcome{cloche: counted(100, 100, 0, 3*s+1)}, Above},
		{"one refused", burst, outcome{cloche: counted(100, 99, 1, s)}, Above},
		{"one failed", burst, outcome{cloche: counted(100, 99, 0, s)}, Above},
		{"none served", burst, outcome{cloche: Figure{Counts: &Counts{Asked: 1, Refused: 1}}}, Above},
		{"just enough served", flood, outcome{cloche: counted(1000, 100, 900, 10*s)}, Within},
		{"one too few served", flood, outcome{cloche: counted(1000, 99, 901, s)}, Above},
		{"one neither served nor refused", flood, outcome{cloche: counted(1000, 100, 899, s)}, Above},
		{"one waited too long", flood, outcome{cloche: counted(1000, 1000, 0, 10*s+1)}, Above},
		{"size at the bar", size, outcome{cloche: sized(growth, flat)}, Within},
		{"size past it", size, outcome{cloche: sized(growth, flat+1)}, Above},
		{"size unknown", size, outcome{cloche: sized("another", 1)}, Above},
		{"one of two is missed", both, outcome{cloche: Figure{Times: took(s + 1).Times, Sizes: sized(growth, 0).Sizes}}, Above},
		{"the other of two is missed", both, outcome{cloche: Figure{Times: took(s).Times, Sizes: sized(growth, flat+1).Sizes}}, Above},
		{"both are held", both, outcome{cloche: Figure{Times: took(s).Times, Sizes: sized(growth, flat).Sizes}}, Within},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := Line{Bar: test.bar}
			if l.fill(test.o, true); l.Verdict != test.want || (l.Why != "") != (test.want == Unjudged) {
				t.Errorf("the verdict is %q (%s), want %q", l.Verdict, l.Why, test.want)
			}
			l = Line{Bar: test.bar}
			if l.fill(test.o, false); l.Verdict != Unjudged || l.Why == "" {
				t.Errorf("of less than the bar is for, the verdict is %q (%s)", l.Verdict, l.Why)
			}
		})
	}
}

func TestBarInWords(t *testing.T) {
	for want, bar := range map[string]Bar{
		"ratio ≤ 0.7 (aim 0.5)":               {Ratio: 0.7, Aim: 0.5},
		"ratio ≤ 5":                           {Ratio: 5},
		"ratio < 1":                           {Ratio: 1, Below: true},
		"p99 ≤ 3 s, none refused":             {P99: Millis(3 * time.Second), NoneRefused: true},
		"100 results or more, none past 10 s": {Results: 100, Longest: Millis(10 * time.Second)},
		"growth of memory ≤ 32 MB":            {Size: growth, Bytes: flat},
	} {
		if got := bar.String(); got != want {
			t.Errorf("the bar is %q, want %q", got, want)
		}
	}
}

func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if r.name == "" || seen[r.name] {
			t.Errorf("a second row %q", r.name)
		}
		seen[r.name] = true
		if r.what == "" || r.full.rounds < 1 || r.measure == nil || r.bar == (Bar{}) {
			t.Errorf("row %s lacks something: %+v", r.name, r)
		}
		if r.bar.Ratio > 0 && r.peer == "" {
			t.Errorf("row %s is compared with nothing", r.name)
		}
		if r.quick != (scale{}) && (r.quick.rounds < 1 || r.quick.conversations > r.full.conversations) {
			t.Errorf("a quick run of row %s measures %+v", r.name, r.quick)
		}
	}
	if err := Known(Names()); err != nil {
		t.Error(err)
	}
	if err := Known([]string{"call", "coal"}); err == nil || err.Error()[:14] != `no row "coal";` {
		t.Errorf("a row that is not there: %v", err)
	}
}
