package toolstest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/schema"
)

type goodArgs struct {
	Path         string `json:"path" jsonschema:"what to look at"`
	Conversation string `json:"conversation,omitempty" jsonschema:"which one"`
}

func good() tools.Tool {
	return tools.Tool{
		Name: "look_at", Title: "Look at it", Doc: "Looks at <it> & more.\nSecond line.", Schema: schema.For[goodArgs](),
		ReadOnly: true, Destructive: false, Idempotent: true, OpenWorld: false,
		Run: func(context.Context, *tools.Call) (tools.Result, error) { return tools.Result{}, nil },
	}
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*tools.Tool)
		want  string // part of the only problem; "" for none
	}{
		{"good", func(*tools.Tool) {}, ""},
		{"no name", func(t *tools.Tool) { t.Name = "" }, "name"},
		{"capitals", func(t *tools.Tool) { t.Name = "LookAt" }, "name"},
		{"name at the limit", func(t *tools.Tool) { t.Name = strings.Repeat("a", 56) }, ""},
		{"name past it", func(t *tools.Tool) { t.Name = strings.Repeat("a", 57) }, "name"},
		{"no title", func(t *tools.Tool) { t.Title = " " }, "no title"},
		{"no doc", func(t *tools.Tool) { t.Doc = "\n" }, "no doc"},
		{"doc at the limit", func(t *tools.Tool) { t.Doc = strings.Repeat("a", maxBytes-1) }, ""},
		{"doc past it", func(t *tools.Tool) { t.Doc = strings.Repeat("a", maxBytes) }, "doc has 2 kB"},
		{"not UTF-8", func(t *tools.Tool) { t.Doc = "\xff" }, "UTF-8"},
		{"destroys", func(t *tools.Tool) { t.Destructive = true }, "read-only and destructive"},
		{"not twice", func(t *tools.Tool) { t.Idempotent = false }, "not idempotent"},
		{"queued", func(t *tools.Tool) { t.Queued = true }, "waits its turn"},
		{"nothing to call", func(t *tools.Tool) { t.Run = nil }, "called"},
		{"no schema", func(t *tools.Tool) { t.Schema = nil }, "read schema"},
		{"schema of nothing", func(t *tools.Tool) { t.Schema = json.RawMessage(`{"type":"objct"}`) }, "compile schema"},
		{"open schema", func(t *tools.Tool) {
			t.Schema = json.RawMessage(`{"type":"object","properties":{"conversation":{"type":"string","description":"x"}}}`)
		}, "does not know"},
		{"no conversation", func(t *tools.Tool) { t.Schema = schema.For[goodArgs](schema.Without("conversation")) }, "take a conversation"},
		{"argument without a description", func(t *tools.Tool) {
			t.Schema = schema.For[struct {
				Conversation string `json:"conversation"`
			}]()
		}, "argument conversation has no description"},
		{"long schema", func(t *tools.Tool) {
			t.Schema = json.RawMessage(strings.Replace(string(t.Schema), "what to", strings.Repeat("w", maxBytes), 1))
		}, "schema has 2 kB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tool := good()
			tt.spoil(&tool)
			got := problems(tool)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("problems = %q, want one that contains %q", got, tt.want)
			}
		})
	}
}

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

// check runs Check and returns how it failed, "" if it did not.
func check(t *testing.T, tool tools.Tool) string {
	r := &recorder{TB: t}
	Check(r, tool)
	return strings.Join(r.failed, "\n")
}

func TestGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(updateVariable, "")
	if got := check(t, good()); !strings.Contains(got, filepath.Join("testdata", "look_at.json")+" is missing") {
		t.Errorf("without the file: %q, want a failure that says so", got)
	}
	t.Setenv(updateVariable, "1")
	if got := check(t, good()); got != "" {
		t.Errorf("writing the file failed: %s", got)
	}
	text, err := os.ReadFile("testdata/look_at.json")
	if err != nil || !strings.Contains(string(text), `"Looks at <it> & more.",`) {
		t.Errorf("the file is %s (%v), want the doc in it as it is", text, err)
	}
	t.Setenv(updateVariable, "")
	if got := check(t, good()); got != "" {
		t.Errorf("a tool that did not change failed: %s", got)
	}
	for name, spoil := range map[string]func(*tools.Tool){
		"doc":    func(t *tools.Tool) { t.Doc += " " },
		"hint":   func(t *tools.Tool) { t.OpenWorld = true },
		"title":  func(t *tools.Tool) { t.Title = "Look" },
		"schema": func(t *tools.Tool) { t.Schema = schema.For[goodArgs](schema.Default("path", ".")) },
	} {
		tool := good()
		spoil(&tool)
		if got := check(t, tool); !strings.Contains(got, "what clients see has changed") {
			t.Errorf("another %s: %q, want a failure that says so", name, got)
		}
	}
}
