package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"cloche.dev/cloche/policy/human"
)

// A Printer writes a report.
type Printer interface {
	Print(w io.Writer, r *Report) error
}

// JSON prints for programs.
type JSON struct{}

// Print implements Printer.
func (JSON) Print(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Text prints for people: a table that is one in Markdown too, and what there is
// to say beside it.
type Text struct{}

// Print implements Printer.
func (Text) Print(w io.Writer, r *Report) error {
	scope := "A quick run"
	if r.Full {
		scope = "A full run"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s, %s.\n\n", scope, r.Host, r.Host.Time)
	cells := [][]string{{"what", "median", "p99", "beside it", "median", "p99", "ratio", "bar", ""}}
	var notes []string
	for i := range r.Rows {
		l := &r.Rows[i]
		cells = append(cells, l.cells())
		if n := l.notes(); n != "" {
			notes = append(notes, "- "+l.What+": "+n+"\n")
		}
	}
	table(&b, cells)
	if len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes cells, the first row as head.
func table(b *strings.Builder, cells [][]string) {
	widths := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c), 3)
		}
	}
	for n, row := range cells {
		for i, c := range row {
			b.WriteString("| " + c + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+1))
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for _, width := range widths {
			b.WriteString("| " + strings.Repeat("-", width) + " ")
		}
		b.WriteString("|\n")
	}
}

// cells are those of a line.
func (l *Line) cells() []string {
	c := []string{l.What, "", "", l.Beside, "", "", "", l.Bar.String(), l.Verdict.String()}
	switch {
	case l.Cloche.Times != nil:
		c[1], c[2] = l.Cloche.Times.Median.String(), l.Cloche.Times.P99.String()
	case len(l.Cloche.Sizes) > 0:
		c[1] = human.Bytes(l.Cloche.size(l.Bar.Size))
	}
	if l.Peer.Times != nil {
		c[4], c[5] = l.Peer.Times.Median.String(), l.Peer.Times.P99.String()
	}
	if l.Ratio > 0 {
		c[6] = fmt.Sprintf("%.2f", l.Ratio)
	}
	return c
}

// notes are what the cells have no room for.
func (l *Line) notes() string {
	var parts []string
	if l.Why != "" {
		parts = append(parts, fmt.Sprintf("%s: %s", l.Verdict, l.Why))
	}
	if c := l.Cloche.Counts; c != nil {
		said := fmt.Sprintf("%s, %s refused", human.Plural(int64(c.Results), "result"), orNone(c.Refused))
		if c.Failed > 0 {
			said += fmt.Sprintf(", %d failed (%s)", c.Failed, c.Failure)
		}
		said += fmt.Sprintf("; the longest wait %s, the last answer after %s", c.Longest, c.Wall)
		if p := l.Peer.Counts; p != nil {
			said += fmt.Sprintf(" (beside it %s)", p.Wall)
		}
		parts = append(parts, said)
	}
	var sizes []string
	for _, s := range l.Cloche.Sizes {
		sizes = append(sizes, s.What+" "+human.Bytes(s.Bytes))
	}
	if len(sizes) > 0 {
		parts = append(parts, strings.Join(sizes, ", "))
	}
	return strings.Join(parts, "; ")
}

func orNone(n int) string {
	if n == 0 {
		return "none"
	}
	return human.Count(int64(n))
}
