package headline

import (
	"slices"
	"strings"
	"time"
)

// A Structured is the same report for programs, as JSON, and for agents whose
// client shows them nothing else: it says all that the text says. Fields for
// which there is nothing to say are left out.
type Structured struct {
	Conversation string              `json:"conversation"`
	Call         int                 `json:"call"`
	How          string              `json:"how"`
	Kernel       string              `json:"kernel,omitempty"`
	Exit         StructuredExit      `json:"exit"`
	Seconds      float64             `json:"seconds"`
	Stdout       string              `json:"stdout"`
	Stderr       string              `json:"stderr"`
	Cut          map[string]cut      `json:"cut,omitempty"` // by the stream's name
	Workspace    structuredWorkspace `json:"workspace"`
	Read         *structuredRead     `json:"read,omitempty"` // beside the workspace
	Files        []string            `json:"files,omitempty"`
	MoreFiles    int                 `json:"more_files,omitempty"`
	Notices      []string            `json:"notices,omitempty"`
}

// A StructuredExit says how code ended: the reason, the code or the signal where
// there is one, and the sentence of the line.
type StructuredExit struct {
	Reason reason `json:"reason"`
	Code   *int   `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Text   string `json:"text"`
}

type cut struct {
	Bytes int64  `json:"bytes"`
	Shown int64  `json:"shown"`
	Whole string `json:"whole,omitempty"`
}

// A structuredWorkspace is what the code saw of the workspace and what it left
// there. Reason says why it was not mounted, or not saved.
type structuredWorkspace struct {
	Mounted    bool           `json:"mounted"`
	Saved      bool           `json:"saved"`
	Reason     string         `json:"reason,omitempty"`
	Added      []string       `json:"added,omitempty"`
	Changed    []string       `json:"changed,omitempty"`
	Removed    []string       `json:"removed,omitempty"`
	More       structuredMore `json:"more,omitzero"`
	SavedBytes int64          `json:"saved_bytes,omitempty"`
	Files      int64          `json:"files"`
	Bytes      int64          `json:"bytes"`
}

// structuredMore counts the paths that the lists leave out.
type structuredMore struct {
	Added   int `json:"added,omitempty"`
	Changed int `json:"changed,omitempty"`
	Removed int `json:"removed,omitempty"`
}

type structuredRead struct {
	Attachments structuredFiles `json:"attachments"`
}

type structuredFiles struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Structured returns the report for programs. Its lists of names are as bounded
// as those of the line.
func (r *Report) Structured() Structured {
	s := Structured{
		Conversation: r.Conversation, Call: r.Call, How: r.How, Kernel: r.Kernel,
		Exit:    StructuredExit{Reason: reasonOf(r.Exit), Text: r.ended()},
		Seconds: r.Exit.Duration.Round(time.Millisecond / 10).Seconds(),
		Stdout:  r.Stdout.Text, Stderr: r.Stderr.Text,
		Workspace: r.workspace(),
		Notices:   r.remarks(),
	}
	switch s.Exit.Reason {
	case exited:
		s.Exit.Code = &r.Exit.Code
	case signalled:
		s.Exit.Signal = r.Exit.Signal
	}
	if a := r.Attachments; a.Count > 0 {
		s.Read = &structuredRead{structuredFiles{a.Count, a.Bytes}}
	}
	s.Files = clipped(r.Files)
	s.Files = s.Files[:fitting(s.Files)]
	s.MoreFiles = len(r.Files) - len(s.Files)
	for name, o := range map[string]Output{"stdout": r.Stdout, "stderr": r.Stderr} {
		if o.Cut.Left == 0 {
			continue
		}
		if s.Cut == nil {
			s.Cut = map[string]cut{}
		}
		s.Cut[name] = cut{o.Cut.Total, o.Cut.Shown, o.Whole}
	}
	if silence := r.silence(); silence != "" {
		s.Notices = append(s.Notices, silence)
	}
	return s
}

func (r *Report) workspace() structuredWorkspace {
	w := structuredWorkspace{
		Mounted: r.Workspace.NotMounted == "", Reason: r.Workspace.NotMounted,
		Files: r.Workspace.Files.Count, Bytes: r.Workspace.Files.Bytes,
	}
	c := r.Saved
	if c == nil {
		return w
	}
	if c.NotSaved != "" {
		w.Reason = c.NotSaved
		return w
	}
	w.Saved, w.SavedBytes = true, c.Bytes
	w.Added, w.Changed, w.Removed = clipped(c.Added), clipped(c.Changed), clipped(c.Removed)
	rest := fitting(slices.Concat(w.Added, w.Changed, w.Removed))
	for _, k := range []struct {
		names *[]string
		more  *int
	}{{&w.Added, &w.More.Added}, {&w.Changed, &w.More.Changed}, {&w.Removed, &w.More.Removed}} {
		n := min(rest, len(*k.names))
		*k.more = len(*k.names) - n
		*k.names = (*k.names)[:n]
		rest -= n
	}
	return w
}

// clipped returns names as they are, but for those that are too long for anybody
// to read.
func clipped(names []string) []string {
	list := slices.Clone(names)
	for i, n := range list {
		if len(n) > maxQuoted {
			list[i] = strings.ToValidUTF8(n[:maxQuoted], "") + "…"
		}
	}
	return list
}
