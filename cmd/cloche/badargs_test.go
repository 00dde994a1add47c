package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// taken are arguments that are not as the schema has them, or at its limits, and
// are carried out all the same.
var taken = []struct{ name, args string }{
	{"number as a string", `{"code":"print(1)","timeout_seconds":"5"}`},
	{"number as a fraction", `{"code":"print(1)","timeout_seconds":5.0}`},
	{"null for absent", `{"code":"print(1)","timeout_seconds":null,"conversation":null}`},
	{"empty for absent", `{"code":"print(1)","conversation":""}`},
	{"least time-out", `{"code":"print(1)","timeout_seconds":0.1}`},
	{"largest time-out", `{"code":"print(1)","timeout_seconds":3600}`},
	{"surrogate pair", `{"code":"print(len('\ud83d\ude00'))"}`},
	{"keys escaped", `{"\u0063ode":"print(1)"}`},
}

const range3600 = "and must be from 0.1 to 3600; leave it out for 60"

// refused are arguments that are not carried out, with the kind and a part of
// what the agent is told.
var refused = []struct{ name, args, kind, want string }{
	{"none", `{}`, "invalid", `argument "code" is missing, it must be a string`},
	{"null for code", `{"code":null}`, "invalid", `argument "code" is missing`},
	{"number for code", `{"code":5}`, "invalid", `argument "code" must be a string, not 5`},
	{"object for code", `{"code":{"a":1}}`, "invalid", `argument "code" must be a string, not an object`},
	{"false for code", `{"code":false}`, "invalid", `argument "code" must be a string, not false`},
	{"array for time-out", `{"code":"1","timeout_seconds":[5]}`, "invalid", `argument "timeout_seconds" must be a number, not an array`},
	{"array for conversation", `{"code":"1","conversation":["new"]}`, "invalid", `argument "conversation" must be a string, not an array`},
	{"list for code", `{"code":["1"]}`, "invalid", `argument "code" must be a string, not an array`},
	{"unknown", `{"code":"1","sesion":true}`, "invalid", `unknown argument "sesion" (allowed are code, conversation, timeout_seconds)`},
	{"misspelt", `{"cod":"1"}`, "invalid", `unknown argument "cod", did you mean code?`},
	{"word for time-out", `{"code":"1","timeout_seconds":"soon"}`, "invalid", `argument "timeout_seconds" must be a number, not "soon"`},
	{"true for time-out", `{"code":"1","timeout_seconds":true}`, "invalid", `must be a number, not true`},
	{"no time", `{"code":"1","timeout_seconds":0}`, "invalid", "timeout_seconds is 0 " + range3600},
	{"negative time", `{"code":"1","timeout_seconds":-1}`, "invalid", "timeout_seconds is -1 " + range3600},
	{"short time", `{"code":"1","timeout_seconds":0.0999}`, "invalid", "timeout_seconds is 0.0999 " + range3600},
	{"long time", `{"code":"1","timeout_seconds":3600.001}`, "invalid", "timeout_seconds is 3600.001 " + range3600},
	{"1e12", `{"code":"1","timeout_seconds":1e12}`, "invalid", "timeout_seconds is 1000000000000 " + range3600},
	{"past any integer", `{"code":"1","timeout_seconds":123456789012345678901234567890}`, "invalid", range3600},
	{"NUL in code", `{"code":"print(1)\u0000print(2)"}`, "invalid", "a text in the arguments holds a NUL character"},
	{"first half of a pair", `{"code":"print('\ud800')"}`, "invalid", "half of a surrogate pair"},
	{"halves the wrong way round", `{"code":"print('\udc00\ud800')"}`, "invalid", "half of a surrogate pair"},
	{"deep array", `{"code":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, "invalid", "nested more than 64 deep"},
	{"deep object", `{"code":"1","x":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + `}`, "invalid", "nested more than 64 deep"},
	{"array", `["1"]`, "invalid", "must be one JSON object, not an array"},
	{"string", `"1"`, "invalid", "must be one JSON object, not a string"},
	{"number for conversation", `{"code":"1","conversation":5}`, "invalid", `argument "conversation" must be a string, not 5`},
	{"path for conversation", `{"code":"1","conversation":"../other"}`, "not_found", `pass "new" to start another`},
	{"unknown conversation", `{"code":"1","conversation":"c-aaaaaaaaaaaaaaaaaaaaaaaaaa"}`, "not_found", "no such conversation of yours"},
	{"long conversation", `{"code":"1","conversation":"` + strings.Repeat("c", 100_000) + `"}`, "not_found", "no such conversation of yours"},
}

// TestBadArguments calls with arguments that are wrong. What they mean is
// clear, or the agent is told what to correct; the next call works.
func TestBadArguments(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	for era, version := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := serve(t, lean, version)
			for _, test := range taken {
				t.Run(test.name, func(t *testing.T) {
					if a := s.on(t).ask(json.RawMessage(test.args)); a.Stdout != "1\n" {
						t.Errorf("printed %q, want 1", a.Stdout)
					}
				})
			}
			for _, test := range refused {
				t.Run(test.name, func(t *testing.T) {
					s := s.on(t)
					s.refuses(json.RawMessage(test.args), test.kind, test.want)
					s.works()
				})
			}
			if st := s.status(); len(st.Conversations) != 1 {
				t.Errorf("there are conversations of calls that were refused: %+v", st.Conversations)
			}
		})
	}
}

// refuses checks that a call is not carried out, and what is said of it.
func (s *server) refuses(args any, kind, want string) {
	s.t.Helper()
	a, err := s.call(args)
	if err != nil {
		s.t.Fatalf("call: %v", err)
	}
	if !a.isError || a.Error.Kind != kind || !strings.Contains(a.text, want) || a.Error.Text != a.text || len(a.text) > 1000 {
		s.t.Errorf("answered %t, %s: %.500s\nwant an error, %s, with %q", a.isError, a.Error.Kind, a.text, kind, want)
	}
}

// TestBadLines sends lines that no client sends. Each is answered, or ignored
// where the protocol says so, and the server goes on.
func TestBadLines(t *testing.T) {
	need.Python(t)
	need.Namespaces(t)
	s := start(t, lean)
	s.initialize()
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"code_interpreter","arguments":` + arguments + `}}`
	}
	for i, test := range []struct{ name, line, want string }{
		{"not JSON", `{"jsonrpc":`, `"code":-32700`},
		{"not UTF-8", "\xff\xfe", `"code":-32700`},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `"code":-32600`},
		{"no method", `{"jsonrpc":"2.0","id":"bad"}`, `"code":-32600`},
		{"unknown method", `{"jsonrpc":"2.0","id":"bad","method":"no/such"}`, `"code":-32601`},
		{"unknown notification", `{"jsonrpc":"2.0","method":"no/such"}`, ""},
		{"deeper than any reader goes", call(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), `"error"`},
		{"number past any float", call(`{"code":"1","timeout_seconds":1e400}`), "the number 1e400 is larger than any that can be read; correct it and send the request again"},
		{"_meta that is no object", `{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"code_interpreter","arguments":{"code":"1"},"_meta":5}}`, `\"_meta\" in \"params\" must be an object, not a number`},
		{"cursor", `{"jsonrpc":"2.0","id":"bad","method":"tools/list","params":{"cursor":"eHg="}}`, "there is no such cursor: this list comes whole"},
		{"a key twice", call(`{"code":"1","code":"2"}`), `"id":"bad"`},
		{"NUL in the tool's name", `{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"\u0000","arguments":{}}}`, `"id":"bad"`},
		{"unknown tool", `{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"rm","arguments":{}}}`, `there is no tool \"rm\"; call one of code_interpreter, sandbox_status`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.on(t)
			s.say(test.line)
			if test.want != "" {
				if got := s.hear(); !strings.Contains(got, test.want) || len(got) > 2000 {
					t.Errorf("answered %.500s, want %s", got, test.want)
				}
			}
			s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"code_interpreter","arguments":{"code":"6*7"}}}`, 100+i))
			if got := s.hear(); !strings.Contains(got, fmt.Sprintf(`"id":%d,`, 100+i)) || !strings.Contains(got, `\n42\n`) {
				t.Errorf("then 6*7 answered %.500s", got)
			}
		})
	}
}
