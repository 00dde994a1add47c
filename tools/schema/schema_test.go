package schema_test

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"cloche.dev/cloche/tools/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is embedded, as what every tool takes will be.
type place struct {
	Conversation string `json:"conversation,omitempty" jsonschema:"the id of a conversation"`
}

type file struct {
	Path string `json:"path"`
	Size *int64 `json:"size,omitempty"`
}

type codeArgs struct {
	Code    string            `json:"code" jsonschema:"Python to run"`
	Session bool              `json:"session,omitempty" jsonschema:"keep variables"`
	Timeout int               `json:"timeout_seconds,omitempty" jsonschema:"ends it"`
	Ratio   float64           `json:"ratio,omitempty"`
	Format  string            `json:"format,omitempty"`
	Pkgs    []string          `json:"packages,omitempty"`
	Files   []file            `json:"files,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	place
}

func codeSchema() json.RawMessage {
	return schema.For[codeArgs](
		schema.Range("timeout_seconds", 1, 3600),
		schema.Default("timeout_seconds", 60),
		schema.Enum("format", "markdown", "text"),
	)
}

func TestFor(t *testing.T) {
	const want = `{"type":"object","properties":{` +
		`"code":{"type":"string","description":"Python to run"},` +
		`"session":{"type":"boolean","description":"keep variables"},` +
		`"timeout_seconds":{"type":"integer","description":"ends it","default":60,"minimum":1,"maximum":3600},` +
		`"ratio":{"type":"number"},` +
		`"format":{"type":"string","enum":["markdown","text"]},` +
		`"packages":{"type":"array","items":{"type":"string"}},` +
		`"files":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"size":{"type":"integer"}},"required":["path"],"additionalProperties":false}},` +
		`"env":{"type":"object","additionalProperties":{"type":"string"}},` +
		`"conversation":{"type":"string","description":"the id of a conversation"}` +
		`},"required":["code"],"additionalProperties":false}`
	for range 20 {
		if got := string(codeSchema()); got != want {
			t.Fatalf("For =\n%s\nwant\n%s", got, want)
		}
	}
}

func TestForNothing(t *testing.T) {
	const want = `{"type":"object","properties":{},"additionalProperties":false}`
	if got := string(schema.For[struct{}]()); got != want {
		t.Errorf("For = %s, want %s", got, want)
	}
}

func TestWithout(t *testing.T) {
	type args struct {
		A string `json:"a"`
		B string `json:"b"`
	}
	const want = `{"type":"object","properties":{"b":{"type":"string"}},"required":["b"],"additionalProperties":false}`
	if got := string(schema.For[args](schema.Without("a"))); got != want {
		t.Errorf("For = %s, want %s", got, want)
	}
}

func TestForPanics(t *testing.T) {
	tests := []struct {
		name string
		call func()
	}{
		{"not a struct", func() { schema.For[string]() }},
		{"channel", func() { schema.For[struct{ C chan int }]() }},
		{"edit of nothing", func() { schema.For[codeArgs](schema.Default("timeout", 1)) }},
		{"range upside down", func() { schema.For[codeArgs](schema.Range("timeout_seconds", 2, 1)) }},
		{"default not JSON", func() { schema.For[codeArgs](schema.Default("code", func() {})) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("For did not panic")
				}
			}()
			tt.call()
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	tests := []struct{ name, schema string }{
		{"not JSON", `{"type":`},
		{"not a schema", `{"type":"obj"}`},
		{"array", `{"type":"array"}`},
		{"no type", `{}`},
		{"other document", `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if s, err := schema.Compile(json.RawMessage(tt.schema)); err == nil {
				t.Errorf("Compile(%s) = %v, nil, want an error", tt.schema, s)
			}
		})
	}
}
