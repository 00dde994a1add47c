package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloche.dev/cloche/cmd/internal/repotest"
	"cloche.dev/cloche/tools"
)

// TestReadmeTools holds that README.md lists the tools that the server has.
func TestReadmeTools(t *testing.T) {
	var a app
	a.assemble("") // what the tools work with is not looked at
	repotest.Generated(t, "README.md", "tools", toolTable(t, a.tools))
}

// toolTable returns the table of README.md.
func toolTable(t *testing.T, list []tools.Tool) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| tool | arguments | what it does |\n| --- | --- | --- |\n")
	for _, tool := range list {
		var names []string
		for _, n := range argumentNames(t, tool.Schema) {
			names = append(names, "`"+n+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", tool.Name, strings.Join(names, ", "), strings.ReplaceAll(firstSentence(tool.Doc), "|", `\|`))
	}
	return b.String()
}

// argumentNames returns the names of a schema's properties in their order.
func argumentNames(t *testing.T, schema json.RawMessage) (names []string) {
	t.Helper()
	var s struct{ Properties json.RawMessage }
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(s.Properties)))
	if _, err := dec.Token(); err != nil { // the brace
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var property json.RawMessage
		if err := dec.Decode(&property); err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
	}
	return names
}

// firstSentence returns the start of doc up to the first full stop that a space
// or the end follows.
func firstSentence(doc string) string {
	line, _, _ := strings.Cut(doc, "\n")
	if sentence, _, more := strings.Cut(line, ". "); more {
		return sentence + "."
	}
	return line
}

func TestToolTable(t *testing.T) {
	const want = "| tool | arguments | what it does |\n| --- | --- | --- |\n" +
		"| `b` | `z`, `a` | Does x.y \\| z. |\n| `a` |  | Does it |\n"
	got := toolTable(t, []tools.Tool{
		{Name: "b", Doc: "Does x.y | z. And more.\nMore.", Schema: json.RawMessage(`{"properties":{"z":{"type":"string"},"a":{}}}`)},
		{Name: "a", Doc: "Does it", Schema: json.RawMessage(`{"properties":{}}`)},
	})
	if got != want {
		t.Errorf("toolTable() =\n%s\nwant\n%s", got, want)
	}
}
