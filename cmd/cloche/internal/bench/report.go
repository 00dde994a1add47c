package bench

import (
	"fmt"
	"math"
	"strings"
	"time"

	"cloche.dev/cloche/policy/human"
)

// A Report is what was measured on a host.
type Report struct {
	Host Host   `json:"host"`
	Full bool   `json:"full"`
	Rows []Line `json:"rows"`
}

// A Verdict says what came of a row.
type Verdict string

// The verdicts.
const (
	Within   Verdict = "within"
	Above    Verdict = "above"
	Unjudged Verdict = "unjudged"
	LeftOut  Verdict = "left_out"
	Failed   Verdict = "failed"
)

// String says the verdict in words.
func (v Verdict) String() string {
	switch v {
	case Within:
		return "within the bar"
	case Above:
		return "above the bar"
	case Unjudged:
		return "not judged"
	case LeftOut:
		return "left out"
	}
	return string(v)
}

// Count returns how many lines have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for i := range r.Rows {
		if r.Rows[i].Verdict == v {
			n++
		}
	}
	return n
}

// A Line is one row of a report.
type Line struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Cloche is what was measured, Peer what Beside says.
	Cloche Figure `json:"cloche,omitzero"`
	Beside string `json:"beside,omitempty"`
	Peer   Figure `json:"peer,omitzero"`
	// Ratio is that of the medians, 0 if there are not two.
	Ratio   float64 `json:"ratio,omitempty"`
	Bar     Bar     `json:"bar"`
	Verdict Verdict `json:"verdict"`
	// Why goes with what was left out, not judged, or failed.
	Why string `json:"why,omitempty"`
}

// A Figure is what was measured of one thing; parts that make no sense for it
// are absent.
type Figure struct {
	Times  *Times  `json:"times,omitempty"`
	Counts *Counts `json:"counts,omitempty"`
	Sizes  []Size  `json:"sizes,omitempty"`
}

// Counts say what came of calls that were made at once.
type Counts struct {
	Asked   int `json:"asked"`
	Results int `json:"results"`
	Refused int `json:"refused"` // told to come back
	Failed  int `json:"failed"`
	// Failure is what the first of those that failed said.
	Failure string `json:"failure,omitempty"`
	// Longest is the longest that any of them waited for whatever answer.
	Longest Millis `json:"longest_ms"`
	// Wall is how long it took until the last answer, the median of all rounds.
	Wall Millis `json:"wall_ms"`
}

// A Size is that of something.
type Size struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
}

// A Bar is what a row is to hold. Parts that are zero are not asked for.
type Bar struct {
	// Ratio is the most that the ratio of the medians may be; if Below, it has to be
	// less. Aim is what it ought to be.
	Ratio float64 `json:"ratio,omitempty"`
	Below bool    `json:"below,omitempty"`
	Aim   float64 `json:"aim,omitempty"`
	// P99 bounds the times, Longest that of any answer.
	P99     Millis `json:"p99_ms,omitempty"`
	Longest Millis `json:"longest_ms,omitempty"`
	// Results are the fewest that there have to be; the rest must have been told to
	// come back. With NoneRefused each call must have one.
	Results     int  `json:"results,omitempty"`
	NoneRefused bool `json:"none_refused,omitempty"`
	// Size names the size that may be Bytes at most.
	Size  string `json:"size,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
}

// String says the bar in words.
func (b Bar) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case b.Below:
		add("ratio < %g", b.Ratio)
	case b.Aim > 0:
		add("ratio ≤ %g (aim %g)", b.Ratio, b.Aim)
	case b.Ratio > 0:
		add("ratio ≤ %g", b.Ratio)
	}
	if b.P99 > 0 {
		add("p99 ≤ %s", human.Seconds(time.Duration(b.P99)))
	}
	if b.NoneRefused {
		add("none refused")
	}
	if b.Results > 0 {
		add("%d results or more", b.Results)
	}
	if b.Longest > 0 {
		add("none past %s", human.Seconds(time.Duration(b.Longest)))
	}
	if b.Size != "" {
		add("%s ≤ %s", b.Size, human.Bytes(b.Bytes))
	}
	return strings.Join(parts, ", ")
}

// holds says whether what was measured is within the bar.
// Preconditions: l has what the bar asks about.
func (b Bar) holds(l *Line) bool {
	f := l.Cloche
	ok := true
	if b.Ratio > 0 {
		ok = l.Ratio < b.Ratio || l.Ratio == b.Ratio && !b.Below
	}
	if b.P99 > 0 {
		ok = ok && f.Times != nil && f.Times.P99 <= b.P99
	}
	if b.NoneRefused {
		ok = ok && f.Counts.Results == f.Counts.Asked
	}
	if b.Results > 0 {
		ok = ok && f.Counts.Results >= b.Results && f.Counts.Failed == 0
	}
	if b.Longest > 0 {
		ok = ok && f.Counts.Longest <= b.Longest
	}
	if b.Size != "" {
		ok = ok && f.size(b.Size) <= b.Bytes
	}
	return ok
}

// size returns the size of that name; one that is not there is larger than any
// bar.
func (f Figure) size(what string) int64 {
	for _, s := range f.Sizes {
		if s.What == what {
			return s.Bytes
		}
	}
	return math.MaxInt64
}

// fill writes into l what was measured, and judges it. Less than what the bar is
// about (not whole) is not judged.
func (l *Line) fill(o outcome, whole bool) {
	l.Cloche, l.Peer = o.cloche, o.peer
	if a, b := o.cloche.Times, o.peer.Times; a != nil && b != nil && b.Median > 0 {
		l.Ratio = math.Round(1000*float64(a.Median)/float64(b.Median)) / 1000
	}
	switch {
	case l.Bar.Ratio > 0 && l.Ratio == 0:
		l.Verdict, l.Why = Unjudged, oneLine(o.noPeer)
	case !whole:
		l.Verdict, l.Why = Unjudged, "the bar is for the numbers of a full run"
	case l.Bar.holds(l):
		l.Verdict = Within
	default:
		l.Verdict = Above
	}
}

// named returns what a row measures at that scale.
func (r *row) named(s scale) string {
	if !strings.Contains(r.what, "%s") {
		return r.what
	}
	return fmt.Sprintf(r.what, human.Count(int64(s.conversations)))
}
