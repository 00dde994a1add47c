package audit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	idPattern   = regexp.MustCompile(`^[A-Z][1-9][0-9]*$`)
	endPattern  = regexp.MustCompile(`^(exit \d+|signal \d+|timeout|out of memory)$`)
	headPattern = regexp.MustCompile(`^# ([a-z]+)(?:: (.+))?$`)
)

// parse reads the head of a probe: the comments before its first other line.
func parse(name, text string) (Probe, error) {
	p := Probe{Name: name, Limit: defaultLimit, Ends: []string{"exit 0"}, Meanwhile: plainly, Output: map[string]int64{}, Code: text}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		m := headPattern.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			return Probe{}, fmt.Errorf("strange line %q in its head", line)
		}
		if seen[m[1]] && m[1] != "output" {
			return Probe{}, fmt.Errorf("%s is there twice", m[1])
		}
		seen[m[1]] = true
		if err := p.set(m[1], m[2]); err != nil {
			return Probe{}, fmt.Errorf("%s: %w", m[1], err)
		}
	}
	switch {
	case !idPattern.MatchString(p.ID):
		return Probe{}, fmt.Errorf("%q is no id", p.ID)
	case p.Name != p.ID && !strings.HasPrefix(p.Name, p.ID+"_"):
		return Probe{}, fmt.Errorf("its id is %s", p.ID)
	case p.Title == "" || len(p.Attempts) == 0:
		return Probe{}, errors.New("it has no title or no attempts")
	case p.Load && p.Outside:
		return Probe{}, errors.New("what is a load is not for the host")
	case p.Meanwhile != plainly && !p.Load:
		return Probe{}, errors.New("meanwhile is for a load")
	}
	return p, nil
}

// set takes one line of the head.
func (p *Probe) set(key, value string) (err error) {
	if flag := key == "load" || key == "outside"; flag == (value != "") {
		return fmt.Errorf("strange value %q", value)
	}
	switch key {
	case "id":
		p.ID = value
	case "title":
		p.Title = value
	case "attempts":
		p.Attempts = strings.Split(value, ", ")
		for i, a := range p.Attempts {
			if a == "" || strings.Contains(a, ":") || slices.Contains(p.Attempts[:i], a) {
				return fmt.Errorf("attempt %q cannot be told apart", a)
			}
		}
	case "seconds":
		var seconds float64
		seconds, err = strconv.ParseFloat(value, 64)
		p.Limit = time.Duration(seconds * float64(time.Second))
	case "ends":
		p.Ends = strings.Split(value, " or ")
		for _, e := range p.Ends {
			if !endPattern.MatchString(e) {
				return fmt.Errorf("%q is no end", e)
			}
		}
	case "shows":
		p.Shows = value
	case "output":
		stream, n, _ := strings.Cut(value, " ")
		p.Output[stream], err = strconv.ParseInt(n, 10, 64)
	case "meanwhile":
		p.Meanwhile = value
	case "load":
		p.Load = true
	case "outside":
		p.Outside = true
	default:
		return errors.New("there is no such word")
	}
	return err
}
