package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	protocol "github.com/mark3labs/mcp-go/mcp"
)

const (
	toolsList      = string(protocol.MethodToolsList)
	invalidParams  = protocol.INVALID_PARAMS
	methodNotFound = protocol.METHOD_NOT_FOUND
	// maxQuoted is how many bytes of a client's own words are said back to it.
	maxQuoted = 100
)

// params is what requests have of which this package says what is wrong.
type params struct {
	Name   json.RawMessage `json:"name"`
	Meta   json.RawMessage `json:"_meta"`
	Cursor json.RawMessage `json:"cursor"`
}

// refuse returns the text for a request that the library would answer though it
// makes no sense, "" for any other. Lists come whole, so no cursor is ever given
// out; the library takes those that are not as one that is past the end.
func (s *Server) refuse(method string, line []byte) string {
	var request struct {
		Params struct {
			Cursor string `json:"cursor"`
		} `json:"params"`
	}
	if method != toolsList || json.Unmarshal(line, &request) != nil || request.Params.Cursor == "" {
		return ""
	}
	return "there is no such cursor: this list comes whole; ask for it again without one"
}

// reword says what is wrong with a request that the library refused with a code:
// what is allowed, and what to do next. The library's own text, which it returns
// where it knows no better, is for programmers.
func (s *Server) reword(method string, line []byte, code int, text string) string {
	switch {
	case code == methodNotFound && strings.HasSuffix(text, "not supported"):
		return text + "; this server has tools alone: tools/list names them"
	case code == methodNotFound && strings.HasPrefix(text, "Method "):
		return fmt.Sprintf("there is no method %s; tools/list and tools/call are what this server is for", quoted(method))
	case code == invalidParams && strings.HasPrefix(text, "missing or invalid _meta field"):
		return text + "; since 2026-07-28 each request carries it"
	case code == invalidRequest && strings.HasPrefix(text, "Invalid JSON-RPC version"):
		return `"jsonrpc" must be "2.0"; send the message with it`
	case code == invalidParams && method == toolsCall && strings.HasPrefix(text, "tool '"):
		return s.noTool(line)
	case code == invalidRequest && strings.HasPrefix(text, "unparsable"):
		return unreadable(method, line)
	}
	return text
}

// noTool is what a call of a tool is told that is not there.
func (s *Server) noTool(line []byte) string {
	var request struct {
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &request) != nil || request.Params.Name == "" {
		return `"params" must have the tool's "name"; there are ` + s.names
	}
	return fmt.Sprintf("there is no tool %s; call one of %s", quoted(request.Params.Name), s.names)
}

// unreadable is what a request is told whose params are not as the protocol has
// them.
func unreadable(method string, line []byte) string {
	const again = "; correct it and send the request again"
	var whole any
	if large, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(line, &whole)); ok {
		return "the " + clipped(large.Value) + " is larger than any that can be read" + again
	}
	var request struct {
		Params json.RawMessage `json:"params"`
	}
	var p params
	if json.Unmarshal(line, &request) != nil || json.Unmarshal(request.Params, &p) != nil {
		return fmt.Sprintf(`"params" must be an object, not %s%s`, kindOf(request.Params), again)
	}
	for _, member := range []struct {
		name, want string
		value      json.RawMessage
	}{{"name", "a string", p.Name}, {"_meta", "an object", p.Meta}, {"cursor", "a string", p.Cursor}} {
		if kind := kindOf(member.value); kind != "nothing" && kind != "null" && kind != member.want {
			return fmt.Sprintf(`%q in "params" must be %s, not %s%s`, member.name, member.want, kind, again)
		}
	}
	return fmt.Sprintf("the params are not those that the protocol has for %s%s", quoted(method), again)
}

// kindOf names the kind of a JSON value.
func kindOf(value json.RawMessage) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// quoted quotes what a client chose, as far as it is short.
func quoted(s string) string { return strconv.Quote(clipped(s)) }

func clipped(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}
