package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Verdict says what came of an attempt or of a probe.
type Verdict string

// The verdicts, the better before the worse.
const (
	Blocked Verdict = "blocked"
	// Unpromised: there is no wall, as cloche says itself.
	Unpromised Verdict = "unpromised"
	// Failed: it cannot be told, or something else went wrong.
	Failed Verdict = "failed"
	Open   Verdict = "OPEN"
)

// worse returns the worse of two.
func worse(a, b Verdict) Verdict {
	order := []Verdict{Blocked, Unpromised, Failed, Open}
	return order[max(slices.Index(order, a), slices.Index(order, b), 0)]
}

// A Finding is what came of a probe.
type Finding struct {
	Probe    Probe
	Verdict  Verdict
	Attempts []Attempt // in the probe's order
	// Problem says what went otherwise than it should, "" if nothing.
	Problem string
	Took    time.Duration
	// Worst is how long the slowest of Answers in another conversation took while
	// the probe ran, and Retried that of a first run which was too slow.
	Worst, Retried time.Duration
	Answers        int
}

// An Attempt is what came of one of the things that a probe tries.
type Attempt struct {
	Name    string
	Verdict Verdict
	Detail  string
}

// nothing is the finding of a probe of which nothing is known yet.
func nothing(p Probe) Finding {
	f := Finding{Probe: p}
	for _, name := range p.Attempts {
		f.Attempts = append(f.Attempts, Attempt{name, Failed, "nothing was said of it"})
	}
	return f
}

// failed returns f with one more thing that went wrong.
func (f Finding) failed(format string, args ...any) Finding {
	if f.Problem != "" {
		f.Problem += "; "
	}
	f.Problem += fmt.Sprintf(format, args...)
	f.Verdict = worse(f.Verdict, Failed)
	return f
}

// judge reads an answer to a probe.
func (f Finding) judge(a Answer) Finding {
	said, problems := Reports(f.Probe, a.Stdout)
	end := endOf(a)
	asSaid := slices.Contains(f.Probe.Ends, end)
	for i, name := range f.Probe.Attempts {
		if at, ok := said[name]; ok {
			f.Attempts[i] = at
		} else if asSaid && end != "exit 0" {
			f.Attempts[i] = Attempt{name, Blocked, a.Exit.Text}
		}
		f.Verdict = worse(f.Verdict, f.Attempts[i].Verdict)
	}
	if f.Verdict == Failed {
		problems = append(problems, "not all attempts were reported")
	}
	if !asSaid {
		problems = append(problems, fmt.Sprintf("it ended with %q, not %q; stderr: %.300s", end, f.Probe.Ends, a.Stderr))
	}
	if !strings.Contains(a.Stdout, f.Probe.Shows) {
		problems = append(problems, fmt.Sprintf("stdout does not show %q", f.Probe.Shows))
	}
	if err := heads(a); err != nil {
		problems = append(problems, err.Error())
	}
	problems = append(problems, outputs(f.Probe, a)...)
	for _, p := range problems {
		f = f.failed("%s", p)
	}
	return f
}

var (
	report   = regexp.MustCompile(`^PROBE (\S+) (blocked|unpromised|OPEN) ([^:]+): (.*)$`)
	anyProbe = regexp.MustCompile(`(?m)^PROBE .*$`)
)

// Reports reads the lines that a probe wrote of its attempts. What is none of
// its own is a problem: a probe that is not understood has found nothing.
func Reports(p Probe, stdout string) (said map[string]Attempt, problems []string) {
	said = map[string]Attempt{}
	for _, line := range anyProbe.FindAllString(stdout, -1) {
		m := report.FindStringSubmatch(line)
		switch {
		case m == nil || m[1] != p.ID || !slices.Contains(p.Attempts, m[3]):
			problems = append(problems, fmt.Sprintf("it is not %s's to say %q", p.Name, line))
			continue
		case said[m[3]].Name != "":
			problems = append(problems, fmt.Sprintf("it said twice what came of %s", m[3]))
		}
		a := Attempt{Name: m[3], Verdict: Verdict(m[2]), Detail: m[4]}
		a.Verdict = worse(a.Verdict, said[m[3]].Verdict)
		said[m[3]] = a
	}
	return said, problems
}

// heads checks that the text begins with one line that says how the code ended,
// and that what the code wrote comes after it.
func heads(a Answer) error {
	head, rest, _ := strings.Cut(a.Text, "\n")
	if !strings.HasPrefix(head, "[fresh process · ") || !strings.HasSuffix(head, "]") || !strings.Contains(head, " · "+a.Exit.Text) {
		return fmt.Errorf("the first line %.200q does not say %q", head, a.Exit.Text)
	}
	if !strings.HasPrefix(rest, a.Stdout) {
		return fmt.Errorf("after the first line does not come stdout but %.100q", rest)
	}
	return nil
}

// slack is what a probe may write besides what it is about.
const slack = 64 << 10

// outputs checks what the answer says of how much there was.
func outputs(p Probe, a Answer) (problems []string) {
	for stream, want := range p.Output {
		piece := 2 * int64(1<<20) // the last one may go past
		if got := a.Cut[stream]; got.Bytes < want || got.Bytes > want+piece+slack || got.Shown >= want/100 {
			problems = append(problems, fmt.Sprintf("the answer says that %s had %d bytes and shows %d; %d were sent", stream, got.Bytes, got.Shown, want))
		}
		if !strings.Contains(a.Text[:strings.IndexByte(a.Text+"\n", '\n')], "shown ") {
			problems = append(problems, "the first line does not say that the output was cut")
		}
	}
	return problems
}
