package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/tools/schema"
)

func compile(t testing.TB, raw json.RawMessage) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(raw)
	if err != nil {
		t.Fatalf("Compile(%s) = %v", raw, err)
	}
	return s
}

func TestCheckAccepts(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"as it came", ` {"code": "x<y", "session":true}`, ` {"code": "x<y", "session":true}`},
		{"null is absent", `{"code":"x","session":null,"packages":null}`, `{"code":"x"}`},
		{"unknown null is absent", `{"code":"x","nope":null}`, `{"code":"x"}`},
		{"null below", `{"code":"x","files":[{"path":"a","size":null}]}`, `{"code":"x","files":[{"path":"a"}]}`},
		{"null in a map", `{"code":"x","env":{"A":null,"B":"1"}}`, `{"code":"x","env":{"B":"1"}}`},
		{"integer as text", `{"code":"x","timeout_seconds":"5"}`, `{"code":"x","timeout_seconds":5}`},
		{"integer with fraction", `{"code":"x","timeout_seconds":5.0}`, `{"code":"x","timeout_seconds":5}`},
		{"integer with exponent", `{"code":"x","timeout_seconds":"1e3"}`, `{"code":"x","timeout_seconds":1000}`},
		{"number as text", `{"code":"x","ratio":"-2.5"}`, `{"code":"x","ratio":-2.5}`},
		{"boolean as text", `{"code":"x","session":"True"}`, `{"code":"x","session":true}`},
		{"text stays text", `{"code":"5"}`, `{"code":"5"}`},
		{"below an array", `{"code":"x","files":[{"path":"a","size":"7"}]}`, `{"code":"x","files":[{"path":"a","size":7}]}`},
		{"largest integer", `{"code":"x","files":[{"path":"a","size":9223372036854775807}]}`, `{"code":"x","files":[{"path":"a","size":9223372036854775807}]}`},
		{"at the range's ends", `{"code":"x","timeout_seconds":3600}`, `{"code":"x","timeout_seconds":3600}`},
		{"surrogate pair", `{"code":"\ud83d\ude00"}`, `{"code":"\ud83d\ude00"}`},
		{"escaped backslash before u", `{"code":"\\u0000 \\ud800"}`, `{"code":"\\u0000 \\ud800"}`},
		{"embedded", `{"code":"x","conversation":"c-1"}`, `{"code":"x","conversation":"c-1"}`},
	}
	s := compile(t, codeSchema())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Check(json.RawMessage(tt.in))
			if err != nil || string(got) != tt.want {
				t.Errorf("Check(%s) = %s, %v, want %s", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestCheckNothing(t *testing.T) {
	s := compile(t, schema.For[struct{}]())
	for _, in := range []string{"", " \n", "null", "{}"} {
		if got, err := s.Check(json.RawMessage(in)); err != nil || string(got) != "{}" {
			t.Errorf("Check(%q) = %s, %v, want an empty object", in, got, err)
		}
	}
}

// refusals are arguments and what the agent is told, without the ending that
// refusals of the schema have in common.
var refusals = []struct{ name, in, want string }{
	{"missing", `{}`, `argument "code" is missing, it must be a string`},
	{"missing by null", `{"code":null}`, `argument "code" is missing, it must be a string`},
	{"missing below", `{"code":"x","files":[{}]}`, `argument "files[0].path" is missing, it must be a string`},
	{
		"unknown", `{"code":"x","timeout":5}`,
		`unknown argument "timeout" (allowed are code, conversation, env, files, format, packages, ratio, session, timeout_seconds)`,
	},
	{
		"mistyped", `{"cod":"x"}`,
		`unknown argument "cod", did you mean code? (allowed are code, conversation, env, files, format, packages, ratio, session, timeout_seconds); ` +
			`argument "code" is missing, it must be a string`,
	},
	{"other case", `{"code":"x","files":[{"path":"a","Path":"b"}]}`, `unknown argument "files[0].Path", did you mean path? (allowed are path, size)`},
	{"range below", `{"code":"x","timeout_seconds":0}`, `argument "timeout_seconds" must be an integer from 1 to 3600, not 0`},
	{"range above", `{"code":"x","timeout_seconds":"3601"}`, `argument "timeout_seconds" must be an integer from 1 to 3600, not 3601`},
	{"fraction", `{"code":"x","timeout_seconds":1.5}`, `argument "timeout_seconds" must be an integer from 1 to 3600, not 1.5`},
	{"text for an integer", `{"code":"x","timeout_seconds":"five"}`, `argument "timeout_seconds" must be an integer from 1 to 3600, not "five"`},
	{"leading zero", `{"code":"x","timeout_seconds":"05"}`, `argument "timeout_seconds" must be an integer from 1 to 3600, not "05"`},
	{"number for text", `{"code":5}`, `argument "code" must be a string, not 5`},
	{"text for a boolean", `{"code":"x","session":"yes"}`, `argument "session" must be true or false, not "yes"`},
	{"enum", `{"code":"x","format":"pdf"}`, `argument "format" must be one of "markdown", "text", not "pdf"`},
	{"text for an array", `{"code":"x","packages":"numpy"}`, `argument "packages" must be an array, each item a string, not "numpy"`},
	{"item", `{"code":"x","packages":["a",{}]}`, `argument "packages[1]" must be a string, not an object`},
	{"null item", `{"code":"x","packages":[null]}`, `argument "packages[0]" must be a string, not null`},
	{"map value", `{"code":"x","env":{"A":[1]}}`, `argument "env.A" must be a string, not an array`},
	{"integer past int64", `{"code":"x","files":[{"path":"a","size":9223372036854775808}]}`, `argument "files[0].size" is too large, it is 9223372036854775808`},
	{"value of another line", `{"code":"x","format":"a\nb\u202e"}`, `argument "format" must be one of "markdown", "text", not "a\nb\u202e"`},
	{
		"several", `{"session":1,"ratio":"x","code":2,"format":3,"packages":4,"env":5}`,
		`argument "code" must be a string, not 2; argument "env" must be an object, not 5; argument "format" must be one of "markdown", "text", not 3; ` +
			`argument "packages" must be an array, each item a string, not 4; argument "ratio" must be a number, not "x"; and 1 more problems`,
	},
	{
		"many unknown", `{"code":"x","u1":1,"u2":1,"u3":1,"u4":1,"u5":1}`,
		`unknown argument "u1" (allowed are code, conversation, env, files, format, packages, ratio, session, timeout_seconds); ` +
			`unknown argument "u2"; unknown argument "u3" and 2 more unknown`,
	},
}

func TestCheckRefuses(t *testing.T) {
	s := compile(t, codeSchema())
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Check(json.RawMessage(tt.in))
			if diff := cmp.Diff(tt.want+"; correct this and call again", text(t, err)); diff != "" {
				t.Errorf("Check(%s) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestCheckRefusesDocuments(t *testing.T) {
	deep := func(n int) string {
		return `{"code":"x","free":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	long := strings.Repeat("9", 41)
	tests := []struct{ name, in, want string }{
		{"not JSON", `{"code":x}`, "the arguments are not valid JSON near byte 9; send one JSON object"},
		{"cut off", `{"code":"x"`, "the arguments are not valid JSON near byte 11; send one JSON object"},
		{"two objects", `{"code":"x"}{}`, "the arguments are not valid JSON near byte 13; send one JSON object"},
		{"array", `[1]`, "the arguments must be one JSON object, not an array; send the values under their names"},
		{"string", `"{}"`, "the arguments must be one JSON object, not a string; send the values under their names"},
		{"not UTF-8", "{\"code\":\"\xff\"}", "the arguments are not valid UTF-8; send them as UTF-8"},
		{"key twice", `{"code":"x","code":"y"}`, `the arguments hold "code" twice in one object; send it once`},
		{"key twice by escape", `{"code":"x","\u0063ode":"y"}`, `the arguments hold "code" twice in one object; send it once`},
		{"NUL", `{"code":"a\u0000"}`, "a text in the arguments holds a NUL character (byte 10); remove it and call again"},
		{"NUL in a key", `{"a\u0000":1}`, "a text in the arguments holds a NUL character (byte 3); remove it and call again"},
		{"high surrogate alone", `{"code":"\ud800"}`, "a text in the arguments holds half of a surrogate pair (byte 9); send whole characters"},
		{"low surrogate alone", `{"code":"\udc00"}`, "a text in the arguments holds half of a surrogate pair (byte 9); send whole characters"},
		{"surrogates in the wrong order", `{"code":"\udc00\ud800"}`, "a text in the arguments holds half of a surrogate pair (byte 9); send whole characters"},
		{"high surrogate and a letter", `{"code":"\ud800\u0041"}`, "a text in the arguments holds half of a surrogate pair (byte 9); send whole characters"},
		{"too deep", deep(64), "the arguments are nested more than 64 deep; send them flatter"},
		{"far too deep", deep(20_000), "the arguments are not valid JSON near byte 10019; send one JSON object"},
		{"number too long", `{"code":` + long + `}`, "the number " + long + " in the arguments is too large or too long; send a smaller one"},
		{"exponent too large", `{"code":1e309}`, "the number 1e309 in the arguments is too large or too long; send a smaller one"},
		{"exponent far too small", `{"code":1e-999999999}`, "the number 1e-999999999 in the arguments is too large or too long; send a smaller one"},
	}
	s := compile(t, json.RawMessage(`{"type":"object","properties":{"code":{"type":"string"}}}`))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Check(json.RawMessage(tt.in))
			if diff := cmp.Diff(tt.want, text(t, err)); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := s.Check(json.RawMessage(deep(63))); err != nil {
		t.Errorf("Check at the depth allowed = %v", err)
	}
}

// TestCheckOtherKeywords checks keywords that For does not make, as a schema
// written by hand has them.
func TestCheckOtherKeywords(t *testing.T) {
	tests := []struct{ name, property, in, want string }{
		{"length", `{"type":"string","minLength":1,"maxLength":3}`, `"abcd"`, `must be a string of 1 to 3 characters, not "abcd"`},
		{"pattern", `{"type":"string","pattern":"^a"}`, `"b"`, `must be a string that matches ^a, not "b"`},
		{"items", `{"type":"array","maxItems":1}`, `[1,2]`, "must be an array of at most 1 items, not an array"},
		{"two types", `{"type":["string","integer"],"minimum":3}`, `2`, "must be an integer of at least 3 or a string, not 2"},
		{"nullable", `{"type":["null","string"]}`, `2`, "must be null or a string, not 2"},
		{"exclusive", `{"type":"number","exclusiveMinimum":0}`, `0`, "must be a number that the tool's schema allows, not 0"},
		{"const", `{"const":1}`, `2`, "must be what the tool's schema says, not 2"},
		{"any of", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `2`, "must be what the tool's schema says, not 2"},
		{"reference", `{"$ref":"#/$defs/n"}`, `"x"`, `must be an integer, not "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, json.RawMessage(`{"type":"object","$defs":{"n":{"type":"integer"}},"properties":{"a":`+tt.property+`}}`))
			_, err := s.Check(json.RawMessage(`{"a":` + tt.in + `}`))
			if diff := cmp.Diff(`argument "a" `+tt.want+"; correct this and call again", text(t, err)); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckKeepsNullWhereAllowed(t *testing.T) {
	s := compile(t, json.RawMessage(`{"type":"object","properties":{"a":{"type":["null","string"]},"b":{}}}`))
	const in = `{"a":null,"b":{"c":null}}`
	if got, err := s.Check(json.RawMessage(in)); err != nil || string(got) != in {
		t.Errorf("Check(%s) = %s, %v, want it unchanged", in, got, err)
	}
}

func TestCheckEchoesLittle(t *testing.T) {
	const secret = "TAIL"
	huge := strings.Repeat("é\x1b", 50_000) + secret
	s := compile(t, codeSchema())
	for _, arguments := range []map[string]any{
		{"code": "x", "format": huge},
		{"code": "x", huge: 1},
		{"code": "x", "env": map[string]any{huge: 1}},
		{"code": "x", "packages": []any{1, []any{huge}}},
	} {
		raw, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Check(raw)
		got := text(t, err)
		if len(got) > 500 || strings.Contains(got, secret) || strings.ContainsFunc(got, unicode.IsControl) || !utf8.ValidString(got) {
			t.Errorf("Check = %q, want a short line", got)
		}
	}
}

func TestDecode(t *testing.T) {
	s := compile(t, codeSchema())
	checked, err := s.Check(json.RawMessage(`{"code":"x","timeout_seconds":"5","files":[{"path":"a","size":9007199254740993}],"conversation":"c"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := schema.Decode[codeArgs](checked)
	if err != nil {
		t.Fatal(err)
	}
	want := codeArgs{Code: "x", Timeout: 5, Files: []file{{Path: "a", Size: new(int64(9007199254740993))}}, place: place{Conversation: "c"}}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
	if _, err := schema.Decode[codeArgs](json.RawMessage(`{"code":1}`)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("Decode of what was not checked = %v, want a fault", err)
	}
}

// text returns what the agent is told by err, which must be a fault.
func text(t testing.TB, err error) string {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind() != fault.Invalid {
		t.Fatalf("error %v is no fault of kind invalid", err)
	}
	return f.Text()
}

func FuzzCheck(f *testing.F) {
	for _, tt := range refusals {
		f.Add([]byte(tt.in))
	}
	for _, in := range []string{
		`{"code":"\ud800"}`, `{"code":"\u0000"}`, `{"a":1e-999999999}`, `{"code":"x","code":1}`, `[[[[`, `"\u`, `{"code":"\`,
		`{"code":"x","files":[{"path":"a","size":"1e18"}],"env":{"a":null}}`, "\xff", `nul`, `{"code":"x","session":"TRUE"}`,
	} {
		f.Add([]byte(in))
	}
	s := compile(f, codeSchema())
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := s.Check(in)
		if err != nil {
			told := text(t, err)
			if len(told) > 2000 || strings.ContainsFunc(told, unicode.IsControl) {
				t.Errorf("Check(%q) = %q, want a short line", in, told)
			}
			return
		}
		again, err := s.Check(got)
		if err != nil || string(again) != string(got) {
			t.Errorf("Check(%q) = %s, then %s, %v", in, got, again, err)
		}
		if _, err := schema.Decode[codeArgs](got); err != nil {
			t.Errorf("Decode(%s) = %v", got, err)
		}
	})
}

func ExampleSchema_Check() {
	raw := schema.For[struct {
		Path  string `json:"path" jsonschema:"a file of the workspace"`
		Limit int    `json:"limit,omitempty" jsonschema:"lines to read"`
	}](schema.Range("limit", 1, 1000))
	s, err := schema.Compile(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.Check(json.RawMessage(`{"file":"a.txt","limit":5000}`))
	fmt.Println(err)
	// Output:
	// unknown argument "file" (allowed are limit, path); argument "limit" must be an integer from 1 to 1000, not 5000; argument "path" is missing, it must be a string; correct this and call again
}
