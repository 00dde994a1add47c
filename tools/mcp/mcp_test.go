package mcp

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/tools"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares JSON with a file of testdata.
func golden(t *testing.T, name string, got json.RawMessage) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), indented.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestList(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, 0)
	var previous json.RawMessage
	for _, era := range eras {
		var list struct{ Tools json.RawMessage }
		r := w.ask(requestLine(`"`+era.name+`"`, "tools/list", era.meta, ""))
		if err := json.Unmarshal(r.Result, &list); err != nil {
			t.Fatal(err)
		}
		if previous != nil && !bytes.Equal(previous, list.Tools) {
			t.Errorf("the tools of %s differ from those of the other era", era.name)
		}
		previous = list.Tools
	}
	golden(t, "tools.json", previous)
}

func TestInitialize(t *testing.T) {
	s, log := newServer(newFakes())
	w := dial(t, s, 0)
	golden(t, "initialize.json", w.ask(initLine).Result)
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if r := w.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); string(r.Result) != "{}" {
		t.Errorf("ping = %s, want {}", r.line)
	}
	got := resultOf(t, w.ask(callLine("3", eras[0].meta, "echo", "{}")))
	if !strings.Contains(string(got.StructuredContent), `"client":"hand 9"`) {
		t.Errorf("echo = %s, want the client's name and version", got.StructuredContent)
	}
	if n := strings.Count(log.String(), "msg=client name=hand version=9"); n != 1 {
		t.Errorf("the log names the client %d times, want once:\n%s", n, log)
	}
}

func TestOlderVersions(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-03-26", "2024-11-05"} {
		s, _ := newServer(newFakes())
		w := dial(t, s, 0)
		r := w.ask(strings.Replace(initLine, "2025-11-25", version, 1))
		if !strings.Contains(string(r.Result), `"protocolVersion":"`+version+`"`) {
			t.Errorf("initialize with %s = %s", version, r.line)
		}
	}
}

func TestDiscover(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, 0)
	golden(t, "discover.json", w.ask(requestLine("1", "server/discover", eras[1].meta, "")).Result)
}

func TestCall(t *testing.T) {
	tests := []struct {
		tool, arguments string
		isError         bool
		text            string // how the first content begins
		structured      string // how the structured content begins
	}{
		{"echo", `{ "z":9007199254740993}`, false, `{ "z":9007199254740993}`, `{"arguments":"{ \"z\":9007199254740993}"`},
		{"echo", `null`, false, "{}", `{"arguments":"{}"`},
		{"echo", `[1]`, false, "[1]", `{"arguments":"[1]"`},
		{"fault", `{}`, true, "no room; remove files", `{"error":{"kind":"quota","text":"no room; remove files"}}`},
		{"wrapped", `{}`, true, "no such file; list them", `{"error":{"kind":"not_found","text":"no such file; list them"}}`},
		{"secret", `{}`, true, "internal error, id ", `{"error":{"kind":"internal","text":"internal error, id `},
		{"panic", `{}`, true, "internal error, id ", `{"error":{"kind":"internal","text":"internal error, id `},
		{"no_json", `{}`, true, "internal error, id ", `{"error":{"kind":"internal","text":"internal error, id `},
		{"image", `{}`, false, "a figure", ""},
		{"not_run", `{}`, true, "not run", ""},
		{"nothing", `{}`, false, "", ""},
	}
	s, log := newServer(newFakes())
	w := dial(t, s, 0)
	for _, era := range eras {
		for i, tt := range tests {
			got := resultOf(t, w.ask(callLine(fmt.Sprintf(`"%s %d"`, era.name, i), era.meta, tt.tool, tt.arguments)))
			text := ""
			if len(got.Content) > 0 {
				text, _ = got.Content[0]["text"].(string)
			}
			if got.IsError != tt.isError || !strings.HasPrefix(text, tt.text) || got.Content == nil ||
				!strings.HasPrefix(string(got.StructuredContent), tt.structured) || tt.structured == "" && got.StructuredContent != nil {
				t.Errorf("%s: %s(%s) = %+v, structured %s", era.name, tt.tool, tt.arguments, got, got.StructuredContent)
			}
			if want := map[string]string{"modern": "complete"}[era.name]; got.ResultType != want {
				t.Errorf("%s: result type %q, want %q", era.name, got.ResultType, want)
			}
		}
	}
	// The log has what the client may not see, under the id that it was told.
	for _, want := range []string{"open /root/" + secret, "panic: " + secret, "harness_test.go", "unsupported type: func()"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not hold %q:\n%s", want, log)
		}
	}
	id := strings.Fields(resultOf(t, w.ask(callLine("1", "", "secret", "{}"))).Content[0]["text"].(string))[3]
	if !strings.Contains(log.String(), "id="+strings.Trim(id, ";")) {
		t.Errorf("the log does not hold the id %q", id)
	}
}

func TestImage(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, 0)
	got := resultOf(t, w.ask(callLine("1", "", "image", "{}")))
	want := []map[string]any{
		{"type": "text", "text": "a figure"},
		{"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
	}
	if diff := cmp.Diff(want, got.Content); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestMeta(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, 0)
	for _, era := range eras {
		got := resultOf(t, w.ask(callLine(`"`+era.name+`"`, era.meta+`,"openai/session":"v1","progressToken":"p"`, "echo", "{}")))
		var seen struct {
			Meta             map[string]any
			Progress, Header bool
		}
		if err := json.Unmarshal(got.StructuredContent, &seen); err != nil {
			t.Fatal(err)
		}
		if seen.Meta["openai/session"] != "v1" || seen.Meta["own"] != 1.0 || seen.Meta["progressToken"] != nil || !seen.Progress || seen.Header {
			t.Errorf("%s: echo saw %+v", era.name, seen)
		}
	}
}

// A refusedRequest is one that the library does not carry out.
type refusedRequest struct {
	name, line string
	code       int
	text       string // all of it, or if it ends in "…" its begin
}

func refusedRequests() []refusedRequest {
	const tools = "wait, echo, fault, wrapped, secret, panic, image, nothing, not_run, no_json, progress"
	call := func(id int, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params)
	}
	const again = "; correct it and send the request again"
	return []refusedRequest{
		{"tool", callLine("1", "", "no", "{}"), -32602, `there is no tool "no"; call one of ` + tools},
		{"tool, modern", callLine("2", eras[1].meta, "no", "{}"), -32602, `there is no tool "no"; call one of ` + tools},
		{"tool with a long name", callLine("3", "", strings.Repeat("é", 100_000), "{}"), -32602, `there is no tool "` + strings.Repeat("é", 50) + `…"; call one of ` + tools},
		{"tool with an odd name", call(12, `{"name":"a\u0000\n\"b"}`), -32602, `there is no tool "a\x00\n\"b"; call one of ` + tools},
		{"no name", call(13, `{"arguments":{}}`), -32602, `"params" must have the tool's "name"; there are ` + tools},
		{"no params", `{"jsonrpc":"2.0","id":14,"method":"tools/call"}`, -32602, `"params" must have the tool's "name"; there are ` + tools},
		{"name a number", call(15, `{"name":5}`), -32600, `"name" in "params" must be a string, not a number` + again},
		{"_meta a number", call(16, `{"name":"echo","_meta":5}`), -32600, `"_meta" in "params" must be an object, not a number` + again},
		{"_meta an array", call(17, `{"name":"echo","_meta":[1]}`), -32600, `"_meta" in "params" must be an object, not an array` + again},
		{"number past any", call(18, `{"name":"echo","arguments":{"z":1e400}}`), -32600, `the number 1e400 is larger than any that can be read` + again},
		{"number past any in _meta", call(19, `{"name":"echo","_meta":{"z":-1e400}}`), -32600, `the number -1e400 is larger than any that can be read` + again},
		{"long number", call(20, `{"name":"echo","arguments":{"z":1`+strings.Repeat("0", 400)+`}}`), -32600, `the number 1` + strings.Repeat("0", 92) + `… is larger than any that can be read` + again},
		{"task a number", call(21, `{"name":"echo","task":5}`), -32600, `the params are not those that the protocol has for "tools/call"` + again},
		{"params", call(11, `[1]`), -32600, `"params" must be an object, not an array` + again},
		{"params a text", call(22, `"x"`), -32600, `"params" must be an object, not a string` + again},
		{"cursor", `{"jsonrpc":"2.0","id":23,"method":"tools/list","params":{"cursor":"!"}}`, -32602, "there is no such cursor: this list comes whole; ask for it again without one"},
		{"cursor that could be", `{"jsonrpc":"2.0","id":24,"method":"tools/list","params":{"cursor":"eHg="}}`, -32602, "there is no such cursor…"},
		{"cursor, modern", requestLine("25", "tools/list", eras[1].meta, `"cursor":"!"`), -32602, "there is no such cursor…"},
		{"cursor a number", `{"jsonrpc":"2.0","id":26,"method":"tools/list","params":{"cursor":5}}`, -32600, `"cursor" in "params" must be a string, not a number` + again},
		{"version of JSON-RPC", `{"jsonrpc":"1.0","id":27,"method":"ping"}`, -32600, `"jsonrpc" must be "2.0"; send the message with it`},
		{"method", `{"jsonrpc":"2.0","id":4,"method":"no/such"}`, -32601, `there is no method "no/such"; tools/list and tools/call are what this server is for`},
		{"resources", `{"jsonrpc":"2.0","id":5,"method":"resources/list"}`, -32601, "resources not supported; this server has tools alone: tools/list names them"},
		{"log level", `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"debug"}}`, -32601, "logging not supported; this server…"},
		{"tasks", `{"jsonrpc":"2.0","id":7,"method":"tasks/list"}`, -32601, "tasks not supported; this server…"},
		{
			"no capabilities, modern", requestLine("8", "tools/list", `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, ""), -32602,
			"missing or invalid _meta field io.modelcontextprotocol/clientCapabilities; since 2026-07-28 each request carries it",
		},
		{"ping, modern", requestLine("9", "ping", eras[1].meta, ""), -32601, "…"},
		{"version", requestLine("10", "tools/list", strings.Replace(eras[1].meta, "2026-07-28", "2099-01-01", 1), ""), -32022, "…"},
	}
}

func TestUnknown(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, 0)
	for _, tt := range refusedRequests() {
		r := w.ask(tt.line)
		if r.Error == nil || r.Error.Code != tt.code || len(r.line) > 1000 {
			t.Errorf("%s: answer %.2000s, want the code %d", tt.name, r.line, tt.code)
			continue
		}
		begin, more := strings.CutSuffix(tt.text, "…")
		if got := r.Error.Message; got != tt.text && (!more || !strings.HasPrefix(got, begin)) {
			t.Errorf("%s: text\n%s\nwant\n%s", tt.name, got, tt.text)
		}
	}
}

// TestListen asks for notifications that this server does not have: the library
// acknowledges an empty list, and ends.
func TestListen(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, 0)
	for range 50 {
		w.seen = nil
		w.ask(requestLine("1", "subscriptions/listen", eras[1].meta, `"notifications":{"toolsListChanged":true}`))
		if len(w.seen) != 2 || w.seen[0].Method != "notifications/subscriptions/acknowledged" {
			t.Fatalf("messages %v, want the acknowledgement and then the result", w.seen)
		}
	}
}

func TestNewPanics(t *testing.T) {
	tool := newFakes().tools()[0]
	bare := tool
	bare.Schema = nil
	for name, list := range map[string][]tools.Tool{"same name": {tool, tool}, "no schema": {bare}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("New did not panic")
				}
			}()
			New(Options{Tools: list})
		})
	}
}

// TestNoLog serves without a log.
func TestNoLog(t *testing.T) {
	w := dial(t, New(Options{Name: "x", Version: "1", Tools: newFakes().tools()}), time.Second)
	if got := resultOf(t, w.ask(callLine("1", "", "secret", "{}"))); !got.IsError {
		t.Errorf("secret = %+v, want an error", got)
	}
}
