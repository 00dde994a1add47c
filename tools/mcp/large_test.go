package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestApart takes the arguments out of calls, wherever and however they stand.
func TestApart(t *testing.T) {
	big := `{"z":5,"a":"` + strings.Repeat("ö\\n", 50_000) + `"}`
	for _, tt := range []struct{ name, line, rest, arguments string }{
		{"last", `{"id":1,"params":{"name":"x","arguments":%s}}`, `{"id":1,"params":{"name":"x","arguments":{}}}`, big},
		{"first", `{"params":{"arguments":%s,"name":"x"},"id":1}`, `{"params":{"arguments":{},"name":"x"},"id":1}`, big},
		{"with spaces", "{ \"params\" : { \"arguments\" :\t%s\t} }", "{ \"params\" : { \"arguments\" :\t{}\t} }", big},
		{"twice", `{"params":{"arguments":{"a":1},"arguments":%s}}`, `{"params":{"arguments":{"a":1},"arguments":{}}}`, big},
		{"a list", `{"params":{"arguments":[%s]}}`, `{"params":{"arguments":{}}}`, "[" + big + "]"},
		{"none", `{"params":{"other":%s}}`, "", ""},
		{"elsewhere", `{"arguments":%s}`, "", ""},
		{"params a list", `{"params":[%s]}`, "", ""},
		{"no JSON", `{"params":{"arguments":%s}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := fmt.Sprintf(tt.line, big)
			if tt.rest == "" {
				tt.rest = line
			}
			rest, arguments := apart([]byte(line))
			if string(rest) != tt.rest || string(arguments) != tt.arguments {
				t.Errorf("apart = %.200s and %d bytes of arguments, want %.200s and %d", rest, len(arguments), tt.rest, len(tt.arguments))
			}
		})
	}
}

// TestLarge calls with arguments that are large: they reach the tool as they
// were sent, and what is wrong with the rest of the request is told as ever.
func TestLarge(t *testing.T) {
	s, _ := newServer(newFakes())
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			w := dial(t, s, patience)
			arguments := `{"z": 12345678901234567890, "a":"` + strings.Repeat("x\\u00f6", 50_000) + `"}`
			r := w.ask(callLine("1", era.meta, "echo", arguments))
			var seen struct {
				Arguments string
				Meta      map[string]any
			}
			if err := json.Unmarshal(resultOf(t, r).StructuredContent, &seen); err != nil || seen.Arguments != arguments || seen.Meta["own"] != 1.0 {
				t.Errorf("the tool saw %d bytes and %v, want %d (%v)", len(seen.Arguments), seen.Meta, len(arguments), err)
			}
			if r := w.ask(callLine("2", era.meta, "no", arguments)); r.Error == nil || !strings.HasPrefix(r.Error.Message, `there is no tool "no"`) {
				t.Errorf("a large call of a tool that is not there = %.300s", r.line)
			}
		})
	}
}

// TestMaxCall sends calls that are as long as any tool takes, and longer, one by
// one and at once.
func TestMaxCall(t *testing.T) {
	const most = 200_000
	f := newFakes()
	s, _ := newServer(f)
	s.maxCall = func() int { return most }
	s.limits.message = 2 * most
	w := dial(t, s, patience)
	line := func(id, tool string, size int) string {
		empty := callLine(id, "", tool, `{"a":""}`)
		return callLine(id, "", tool, `{"a":"`+strings.Repeat("x", size-len(empty))+`"}`)
	}
	if r := resultOf(t, w.ask(line("1", "echo", most))); r.IsError {
		t.Errorf("a call of the most that any tool takes = %.300v", r.Content)
	}
	for id, tt := range map[string]struct {
		size int
		text string
	}{
		"2": {most + 1, "no tool of this server takes a call of 200001 bytes, the most is 200000; send less at once"},
		"3": {2 * most, "no tool of this server takes a call of 400000 bytes, the most is 200000; send less at once"},
		"4": {2*most + 1, "a message may have 400000 bytes and this one has 400001; send less at once"},
	} {
		r := w.ask(line(id, "echo", tt.size))
		if r.Error == nil || r.Error.Code != invalidRequest || r.Error.Message != tt.text {
			t.Errorf("a call of %d bytes = %.300s, want %s", tt.size, r.line, tt.text)
		}
	}
	// All that run hold no more than one may have.
	w.send(line("5", "wait", 60_000), line("6", "wait", 60_000), line("7", "wait", 60_000))
	f.begun(t, 3)
	if r := resultOf(t, w.ask(line("8", "echo", 60_000))); !r.IsError || !strings.Contains(string(r.StructuredContent), `"kind":"busy"`) {
		t.Errorf("a call beside others that hold too much = %.300v, want busy", r.Content)
	}
	if r := resultOf(t, w.ask(callLine("9", "", "echo", "{}"))); r.IsError {
		t.Errorf("a small call beside them = %.300v", r.Content)
	}
	close(f.released)
	if _, err := w.hangUp(); err != nil {
		t.Errorf("Stdio = %v", err)
	}
}
