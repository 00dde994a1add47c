// Package toolstest checks what is true of every tool: that agents and clients
// can read it, and that what they see of it changes on purpose only.
package toolstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/schema"
)

// updateVariable is the environment variable that, set to 1, has golden files
// written instead of compared.
const updateVariable = "CLOCHE_UPDATE"

// maxBytes bounds the doc and the schema, each: they stand in the context of
// every agent, and some clients cut what is longer.
const maxBytes = 2 << 10

// goodName is what every client takes as a name.
var goodName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,55}$`)

// Check holds the rules for tool and compares what clients see of it with
// testdata/NAME.json below the package that is tested. Without that file it
// fails; with CLOCHE_UPDATE=1 it writes the file.
func Check(t testing.TB, tool tools.Tool) {
	t.Helper()
	for _, p := range problems(tool) {
		t.Errorf("%s: %s", tool.Name, p)
	}
	golden(t, filepath.Join("testdata", tool.Name+".json"), seen(tool))
}

// problems returns what is wrong with tool.
func problems(tool tools.Tool) (list []string) {
	add := func(is bool, problem string) {
		if is {
			list = append(list, problem)
		}
	}
	add(!goodName.MatchString(tool.Name), "the name is not one that every client takes")
	add(strings.TrimSpace(tool.Title) == "", "there is no title")
	add(strings.TrimSpace(tool.Doc) == "", "there is no doc")
	add(len(tool.Doc) >= maxBytes, "the doc has 2 kB or more")
	add(len(tool.Schema) >= maxBytes, "the schema has 2 kB or more")
	add(!utf8.ValidString(tool.Doc) || !utf8.ValidString(tool.Title), "the doc or the title is not UTF-8")
	add(tool.ReadOnly && tool.Destructive, "it is called read-only and destructive")
	add(tool.ReadOnly && !tool.Idempotent, "it is called read-only, and not idempotent")
	add(tool.ReadOnly && tool.Queued, "it is called read-only, and waits its turn")
	add(tool.Run == nil, "it cannot be called")
	return append(list, argumentProblems(tool.Schema)...)
}

// argumentProblems returns what is wrong with a schema.
func argumentProblems(raw json.RawMessage) (list []string) {
	if _, err := schema.Compile(raw); err != nil {
		return []string{err.Error()}
	}
	var s struct {
		Properties map[string]struct{ Description string }
		Additional *bool `json:"additionalProperties"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return []string{err.Error()}
	}
	if s.Additional == nil || *s.Additional {
		list = append(list, "the schema takes arguments that the tool does not know")
	}
	if _, ok := s.Properties["conversation"]; !ok {
		list = append(list, "it does not take a conversation")
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			list = append(list, "argument "+name+" has no description")
		}
	}
	return list
}

// seen returns what clients see of tool, the doc by lines.
func seen(tool tools.Tool) any {
	return struct {
		Name        string          `json:"name"`
		Title       string          `json:"title"`
		Doc         []string        `json:"doc"`
		Schema      json.RawMessage `json:"schema"`
		ReadOnly    bool            `json:"readOnly"`
		Destructive bool            `json:"destructive"`
		Idempotent  bool            `json:"idempotent"`
		OpenWorld   bool            `json:"openWorld"`
	}{
		tool.Name, tool.Title, strings.Split(tool.Doc, "\n"), tool.Schema,
		tool.ReadOnly, tool.Destructive, tool.Idempotent, tool.OpenWorld,
	}
}

// golden compares v, as JSON, with the file path.
func golden(t testing.TB, path string, v any) {
	t.Helper()
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	if os.Getenv(updateVariable) == "1" {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil { //nolint:forbidigo // a file of the repository
			t.Errorf("write what clients see: %v", err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:forbidigo // a file of the repository
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is missing; %s=1 writes it", path, updateVariable)
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("what clients see has changed; if that is meant, %s=1 writes %s anew (-want +got):\n%s", updateVariable, path, diff)
	}
}
