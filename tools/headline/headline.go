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
	// How says what ran the code: "fresh process", or which kernel it was and
	// whether that is new. Kernel is the kernel's name, "" for a fresh process.
	How, Kernel string
	// Workspace is what the code saw of the workspace.
	Workspace Workspace
	// Attachments were offered to the code beside the workspace.
	Attachments Files
	// Exit is how it ended, TimeLimit what it was given of at most MaxTime.
	Exit      sandbox.Exit
	TimeLimit time.Duration
	MaxTime   time.Duration
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
	parts = append(parts, human.Seconds(r.Exit.Duration), r.ended())
	if r.Saved != nil {
		parts = append(parts, r.Saved.part())
	}
	if len(r.Files) > 0 {
		parts = append(parts, "files: "+bounded(quotedNames("", r.Files)))
	}
	parts = append(parts, r.remarks()...)
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
	b.WriteString(r.silence())
	return b.String()
}

// ended says how the code ended; in a kernel, whose process goes on, there is no
// exit to tell when all is well.
func (r *Report) ended() string {
	if r.Kernel != "" && Good(r.Exit) {
		return "ok"
	}
	return Sentence(r.Exit, r.TimeLimit, r.MaxTime)
}

// silence says that there is no output; "" if there is some.
func (r *Report) silence() string {
	switch {
	case r.Stdout.Text != "" || r.Stderr.Text != "":
		return ""
	case Good(r.Exit):
		return "finished, no output"
	}
	return "no output"
}

// remarks are the parts of the line that are sentences: what is not shown of the
// output, what the call waited for, the notices, the conversation.
func (r *Report) remarks() []string {
	var parts []string
	for _, o := range []struct {
		name string
		Output
	}{{"output", r.Stdout}, {"stderr", r.Stderr}} {
		if o.Cut.Left > 0 {
			parts = append(parts, o.cut(o.name))
		}
	}
	if r.Behind > 0 && r.Queued >= tellQueued {
		parts = append(parts, fmt.Sprintf("queued %s behind call %d", human.Seconds(r.Queued), r.Behind))
	}
	for _, n := range r.Notices {
		parts = append(parts, quote(n))
	}
	if r.Tell {
		parts = append(parts, fmt.Sprintf("conversation %s: pass it as \"conversation\" to come back", quote(r.Conversation)))
	}
	return parts
}

// cut says how much is shown, and where the rest is or what to do.
func (o Output) cut(name string) string {
	part := fmt.Sprintf("%s %s, shown %s", name, human.Bytes(o.Cut.Total), human.Bytes(o.Cut.Shown))
	if o.Whole != "" {
		return part + ", whole: " + quoteName(o.Whole)
	}
	return part + ": print only the part you need"
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
			list = append(list, quotedNames(k.sign, k.names)...)
		}
	}
	if len(list) == 0 {
		return "saved nothing"
	}
	return fmt.Sprintf("saved %s (%s): %s", strings.Join(counts, " "), human.Bytes(c.Bytes), bounded(list))
}

// quotedNames quotes names and puts sign before each.
func quotedNames(sign string, names []string) []string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = sign + quoteName(n)
	}
	return quoted
}

// bounded joins those of the words that fit and counts the rest.
func bounded(words []string) string {
	n := fitting(words)
	shown := strings.Join(words[:n], " ")
	if n == len(words) {
		return shown
	}
	return fmt.Sprintf("%s … and %s more", shown, human.Count(int64(len(words)-n)))
}

// fitting returns how many words fit into the bounds of the line, from the first
// on.
func fitting(words []string) int {
	bytes := 0
	for i, w := range words {
		if bytes += len(w); i == maxNames || bytes > maxNameBytes {
			return i
		}
	}
	return len(words)
}
