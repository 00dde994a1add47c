package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestLines(t *testing.T) {
	const most = 100_000 // More than the reader's buffer.
	fits, long := strings.Repeat("x", most), strings.Repeat("y", most+1)
	tests := []struct {
		name, in string
		want     []string // "!": too long
	}{
		{"empty", "", nil},
		{"blank", "\n \n\r\n", nil},
		{"two", "a\nb\n", []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"no end", "a\nb", []string{"a", "b"}},
		{"at the limit", fits + "\na\n", []string{fits, "a"}},
		{"at the limit, CRLF", fits + "\r\na\n", []string{fits, "a"}},
		{"at the limit, no end", fits, []string{fits}},
		{"past the limit", "a\n" + long + "\nb\n", []string{"a", "!", "b"}},
		{"past the limit, no end", long, []string{"!"}},
		{"far past the limit", strings.Repeat(long, 20) + "\na", []string{"!", "a"}},
		{"twice past the limit", long + "\n" + long + "\na", []string{"!", "!", "a"}},
	}
	for _, tt := range tests {
		for name, r := range map[string]io.Reader{"": strings.NewReader(tt.in), " in halves": iotest.HalfReader(strings.NewReader(tt.in))} {
			t.Run(tt.name+name, func(t *testing.T) {
				l := newLines(r, most)
				for i := 0; ; i++ {
					line, err := l.next()
					if _, ok := errors.AsType[*tooLong](err); ok {
						line, err = []byte("!"), nil
					}
					if i == len(tt.want) {
						if !errors.Is(err, io.EOF) {
							t.Errorf("line %d = %.20q, %v, want the end", i, line, err)
						}
						return
					}
					if err != nil || string(line) != tt.want[i] {
						t.Fatalf("line %d = %.20q, %v, want %.20q", i, line, err, tt.want[i])
					}
				}
			})
		}
	}
}

func TestLinesError(t *testing.T) {
	broken := errors.New("broken")
	for _, before := range []string{"", "a", strings.Repeat("x", 200_000)} {
		l := newLines(io.MultiReader(strings.NewReader(before), iotest.ErrReader(broken)), 100_000)
		if line, err := l.next(); !errors.Is(err, broken) {
			t.Errorf("next = %.20q, %v, want %v", line, err, broken)
		}
	}
}

func TestLimit(t *testing.T) {
	if got := defaultLimits().message; got != 64_000_000 {
		t.Errorf("messages of %d bytes are taken, want 64 MB", got)
	}
}

// TestGarbage sends what is no message of the protocol between good ones.
func TestGarbage(t *testing.T) {
	x := strings.Repeat("x", 20_000)
	tests := []struct {
		name, line string
		code       int
		id         string
	}{
		{"no JSON", `hello`, -32700, "null"},
		{"cut off", `{"jsonrpc":"2.0","id":1`, -32700, "null"},
		{"two in a line", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, -32700, "null"},
		{"NUL", "\x00", -32700, "null"},
		{"too deep", strings.Repeat(`{"a":`, 11_000), -32700, "null"},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "null"},
		{"empty batch", `[]`, -32600, "null"},
		{"string", `"ping"`, -32600, "null"},
		{"empty object", `{}`, -32600, "null"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, -32600, "1"},
		{"method no string", `{"jsonrpc":"2.0","id":1,"method":{}}`, -32600, "1"},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "null"},
		{"id an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "null"},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600, "null"},
		{"id too long", `{"jsonrpc":"2.0","id":"` + x[:2000] + `","method":"ping"}`, -32600, "null"},
		{"JSON-RPC 1", `{"id":1,"method":"ping"}`, -32600, "1"},
		{"request and response", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, -32600, "1"},
		{"long, id first", `{"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"` + x + `"}}`, -32600, `"a\"b"`},
		{"long, id last", `{"method":"tools/call","params":{"id":8,"name":"` + x + `"},"jsonrpc":"2.0","id":7}`, -32600, "7"},
		{"long, id in a text alone", `{"method":"tools/call","params":{"name":"` + x + `,\"id\":7}"}}`, -32600, "null"},
		{"long, id null", `{"jsonrpc":"2.0","id":null,"method":"` + x + `"}`, -32600, "null"},
		{"long, no JSON", x, -32600, "null"},
	}
	s, _ := newServer(newFakes())
	s.limits.message = 60_000
	for i := range tests {
		if strings.HasPrefix(tests[i].name, "long") {
			tests[i].line = strings.Replace(tests[i].line, x, strings.Repeat("x", 70_000), 1)
		}
	}
	w := dial(t, s, patience)
	for _, tt := range tests {
		w.send(tt.line)
		r, _ := w.next()
		if r.Error == nil || r.Error.Code != tt.code || string(r.ID) != tt.id || len(r.line) > 300 {
			t.Errorf("%s: answer %s, want the code %d for %s", tt.name, r.line, tt.code, tt.id)
		}
		w.seen = nil
		w.ask(`{"jsonrpc":"2.0","id":"still there","method":"ping"}`)
	}
	// What needs no answer gets none.
	w.send("", " ", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"no/such"}`)
	w.seen = nil
	if replies, err := w.hangUp(); err != nil || len(replies) != 0 {
		t.Errorf("Stdio = %v, replies %v, want none", err, replies)
	}
}

// TestIDs has ids come back as they were sent.
func TestIDs(t *testing.T) {
	s, _ := newServer(newFakes())
	w := dial(t, s, patience)
	for _, id := range []string{"0", "-1", "9007199254740993", "123456789012345678901234567890", "1.50", "1e3", `"1"`, `""`, `"é"`, `"a\"b"`} {
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`,
			`{"method":"no/such","jsonrpc":"2.0","id": ` + id + ` }`,
			callLine(id, eras[1].meta, "echo", "{}"),
		} {
			w.seen = nil
			w.send(line)
			if r, _ := w.next(); string(r.ID) != id {
				t.Errorf("the id %s came back as %s", id, r.ID)
			}
		}
	}
}

// TestLastLineWithoutEnd has the client hang up in the middle of the last line.
func TestLastLineWithoutEnd(t *testing.T) {
	s, _ := newServer(newFakes())
	var out bytes.Buffer
	if err := s.Stdio(t.Context(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), &out, patience); err != nil {
		t.Error(err)
	}
	if got, want := out.String(), `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

func FuzzStdio(f *testing.F) {
	for _, seed := range []string{
		initLine, callLine("1", eras[1].meta, "echo", `{"z":1}`), callLine(`"1"`, `"progressToken":1`, "progress", "[]"), cancelLine("1"),
		`[]`, `{}`, `{"id":null}`, "\x00\n{}", `{"jsonrpc":"2.0","id":1e999,"method":"ping"}`, requestLine("1", "server/discover", eras[1].meta, ""),
		requestLine("1", "subscriptions/listen", eras[1].meta, `"notifications":{}`), strings.Repeat("x", 5000),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","task":{},"_meta":{"progressToken":"x"}}}`,
	} {
		f.Add([]byte(seed))
		f.Add([]byte(seed + "\n" + seed))
	}
	s := New(Options{Name: "x", Version: "1", Tools: newFakes().tools()[1:]})
	s.limits.message = 4000
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := s.Stdio(t.Context(), bytes.NewReader(in), &out, time.Minute); err != nil {
			t.Fatalf("Stdio = %v", err)
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{`) || !strings.HasSuffix(line, "}\n") || strings.Contains(line, secret) {
				t.Errorf("output %q for %q", line, in)
			}
		}
	})
}
