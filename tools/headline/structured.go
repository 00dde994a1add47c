package headline

import (
	"time"

	"cloche.dev/cloche/policy/human"
)

// A Structured is the same report for programs, as JSON. Fields for which there
// is nothing to say are left out.
type Structured struct {
	Conversation string              `json:"conversation"`
	Call         int                 `json:"call"`
	How          string              `json:"how"`
	Exit         StructuredExit      `json:"exit"`
	Seconds      float64             `json:"seconds"`
	Stdout       string              `json:"stdout"`
	Stderr       string              `json:"stderr"`
	Cut          map[string]cut      `json:"cut,omitempty"`
	Workspace    structuredWorkspace `json:"workspace"`
	Read         *structuredFiles    `json:"read,omitempty"`
	Files        []string            `json:"files,omitempty"`
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

type structuredWorkspace struct {
	Mounted bool     `json:"mounted"`
	Reason  string   `json:"reason,omitempty"`
	Saved   bool     `json:"saved"`
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Files   int64    `json:"files"`
	Bytes   int64    `json:"bytes"`
}

type structuredFiles struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Structured returns the report for programs.
func (r *Report) Structured() Structured {
	s := Structured{
		Conversation: r.Conversation, Call: r.Call, How: r.How,
		Exit:    StructuredExit{Reason: reasonOf(r.Exit), Signal: r.Exit.Signal, Text: Sentence(r.Exit, r.TimeLimit)},
		Seconds: r.Exit.Duration.Round(time.Millisecond / 10).Seconds(),
		Stdout:  r.Stdout.Text, Stderr: r.Stderr.Text,
		Workspace: structuredWorkspace{
			Mounted: r.Workspace.NotMounted == "", Reason: r.Workspace.NotMounted,
			Files: r.Workspace.Files.Count, Bytes: r.Workspace.Files.Bytes,
		},
		Files: r.Files, Notices: r.Notices,
	}
	if s.Exit.Reason == exited {
		s.Exit.Code = &r.Exit.Code
	}
	if c := r.Saved; c != nil {
		s.Workspace.Saved = c.NotSaved == ""
		s.Workspace.Added, s.Workspace.Changed, s.Workspace.Removed = c.Added, c.Changed, c.Removed
		if c.NotSaved != "" {
			s.Workspace.Reason = c.NotSaved
		}
	}
	if a := r.Attachments; a.Count > 0 {
		s.Read = &structuredFiles{a.Count, a.Bytes}
	}
	for name, o := range map[string]Output{"stdout": r.Stdout, "stderr": r.Stderr} {
		if o.Cut.Left == 0 {
			continue
		}
		if s.Cut == nil {
			s.Cut = map[string]cut{}
		}
		s.Cut[name] = cut{o.Cut.Total, o.Cut.Shown, o.Whole}
	}
	if r.Behind > 0 && r.Queued >= tellQueued {
		s.Notices = append(s.Notices[:len(s.Notices):len(s.Notices)], "queued "+human.Seconds(r.Queued))
	}
	return s
}
