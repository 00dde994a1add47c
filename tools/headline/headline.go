// Package headline writes the result of a call that ran code: one line that
// says how it ran, what it read and what it left, then what it printed. The
// line's form is a contract with agents.
package headline

import (
	"fmt"
	"strings"
	"time"

	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/stream"
)

// Bounds of the names in a line.
const (
	maxNames     = 12
	maxNameBytes = 600
)

// tellQueued is the wait from which on it is told: below it the call before was
// only being cleared up after.
const tellQueued = 100 * time.Millisecond

// separator parts the line; in what is not ours it never appears.
const separator = " · "

// A Report is what is told of a call.
type Report struct {
	// How says what ran the code: "fresh process".
	How string
	// Workspace is what the code saw of the workspace.
	Workspace Workspace
	// Attachments were offered to the code beside the workspace.
	Attachments Files
	// Exit is how it ended, TimeLimit what it was given.
	Exit      sandbox.Exit
	TimeLimit time.Duration
	// Saved is what the call changed in the workspace; nil if nothing can be.
	Saved *Change
	// Files are the names of conversation files that the call made.
	Files []string
	// Stdout and Stderr are what is shown of the output.
	Stdout, Stderr Output
	// Queued is how long the call waited, Behind the number of the call that it
	// waited for.
	Queued time.Duration
	Behind int
	// Call is the call's number in its conversation, Conversation the id, which
	// is told in the line if Tell is set.
	Call         int
	Conversation string
	Tell         bool
	// Notices are sentences of ours.
	Notices []string
}

// A Workspace is what the code saw of it. With NotMounted it saw none, for that
// reason.
type Workspace struct {
	NotMounted string
	Files      Files
}

// Files counts files and their bytes.
type Files struct{ Count, Bytes int64 }

// A Change is what a call did to the workspace.
type Change struct {
	Added, Changed, Removed []string
	Bytes                   int64
	// NotSaved says why nothing was kept, "" if it was.
	NotSaved string
}

// An Output is what is shown of a stream.
type Output struct {
	Text string
	Cut  stream.Cut
	// Whole names the conversation file with all of it, "" if there is none.
	Whole string
}

// Line returns the first line, without a newline.
func (r *Report) Line() string {
	parts := []string{quote(r.How), r.Workspace.part()}
	if a := r.Attachments; a.Count > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s)", human.Plural(a.Count, "attachment"), human.Bytes(a.Bytes)))
	}
	parts = append(parts, human.Seconds(r.Exit.Duration), Sentence(r.Exit, r.TimeLimit))
	if r.Saved != nil {
		parts = append(parts, r.Saved.part())
	}
	if len(r.Files) > 0 {
		parts = append(parts, "files: "+names(r.Files, ""))
	}
	parts = append(parts, r.output()...)
	if r.Behind > 0 && r.Queued >= tellQueued {
		parts = append(parts, fmt.Sprintf("queued %s behind call %d", human.Seconds(r.Queued), r.Behind))
	}
	for _, n := range r.Notices {
		parts = append(parts, quote(n))
	}
	if r.Tell {
		parts = append(parts, fmt.Sprintf("conversation %s: pass it as \"conversation\" to come back", r.Conversation))
	}
	return "[" + strings.Join(parts, separator) + "]"
}

// Text returns the whole result: the line, what was written to standard output,
// and what to standard error in a block of its own.
func (r *Report) Text() string {
	var b strings.Builder
	b.WriteString(r.Line())
	b.WriteByte('\n')
	b.WriteString(r.Stdout.Text)
	if r.Stderr.Text != "" {
		if r.Stdout.Text != "" && !strings.HasSuffix(r.Stdout.Text, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString("[stderr]\n")
		b.WriteString(r.Stderr.Text)
	}
	if r.Stdout.Text == "" && r.Stderr.Text == "" {
		if Good(r.Exit) {
			b.WriteString("finished, no output")
		} else {
			b.WriteString("no output")
		}
	}
	return b.String()
}

func (w Workspace) part() string {
	if w.NotMounted != "" {
		return "workspace not mounted: " + quote(w.NotMounted)
	}
	return fmt.Sprintf("workspace mounted (%s)", w.Files.describe())
}

func (f Files) describe() string {
	if f.Count == 0 {
		return "0 files"
	}
	return fmt.Sprintf("%s, %s", human.Plural(f.Count, "file"), human.Bytes(f.Bytes))
}

// part says what was saved, with the names that were added, changed, removed.
func (c *Change) part() string {
	if c.NotSaved != "" {
		return "NOT SAVED: " + quote(c.NotSaved)
	}
	var counts, list []string
	for _, k := range []struct {
		sign  string
		names []string
	}{{"+", c.Added}, {"~", c.Changed}, {"-", c.Removed}} {
		if len(k.names) > 0 {
			counts = append(counts, k.sign+human.Count(int64(len(k.names))))
			for _, n := range k.names {
				list = append(list, k.sign+quoteName(n))
			}
		}
	}
	if len(list) == 0 {
		return "saved nothing"
	}
	return fmt.Sprintf("saved %s (%s): %s", strings.Join(counts, " "), human.Bytes(c.Bytes), bounded(list, " "))
}

// output says what is not shown, and where it is or what to do.
func (r *Report) output() []string {
	var parts []string
	for _, o := range []struct {
		name string
		Output
	}{{"output", r.Stdout}, {"stderr", r.Stderr}} {
		if o.Cut.Left == 0 {
			continue
		}
		part := fmt.Sprintf("%s %s, shown %s", o.name, human.Bytes(o.Cut.Total), human.Bytes(o.Cut.Shown))
		if o.Whole != "" {
			part += ", whole: " + quoteName(o.Whole)
		} else {
			part += ": print only the part you need"
		}
		parts = append(parts, part)
	}
	return parts
}

// names joins names, within the bounds of the line.
func names(list []string, sign string) string {
	quoted := make([]string, len(list))
	for i, n := range list {
		quoted[i] = sign + quoteName(n)
	}
	return bounded(quoted, " ")
}

// bounded joins words until maxNames or maxNameBytes are reached and counts the
// rest.
func bounded(words []string, sep string) string {
	bytes := 0
	for i, w := range words {
		if bytes += len(w) + len(sep); i == maxNames || bytes > maxNameBytes {
			rest := fmt.Sprintf("… and %s more", human.Count(int64(len(words)-i)))
			return strings.Join(append(words[:i:i], rest), sep)
		}
	}
	return strings.Join(words, sep)
}
