package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	protocol "github.com/mark3labs/mcp-go/mcp"
)

const (
	parseError     = protocol.PARSE_ERROR
	invalidRequest = protocol.INVALID_REQUEST
	internalError  = protocol.INTERNAL_ERROR

	toolsCall = string(protocol.MethodToolsCall)
	cancelled = string(protocol.MethodNotificationCancelled)

	// maxID is how many bytes the id of a request may have.
	maxID = 1000
	// maxErrorText is how much of an error's text is sent: the library's repeat
	// names that clients chose.
	maxErrorText = 500
)

// message is what this package has to know of one message of a client.
type message struct {
	// id is as the client wrote it, nil for a notification.
	id json.RawMessage
	// method is "" for a response.
	method string
}

// present is true when a member is there, whatever its value.
type present bool

func (p *present) UnmarshalJSON([]byte) error {
	*p = true
	return nil
}

// parse reads the outside of a message. A line that is none gives the line to
// answer.
func parse(line []byte) (m message, answer []byte) {
	if line[0] == '[' {
		return m, errorLine(nil, invalidRequest, "batches are not taken; send one message a line")
	}
	var outside struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result present         `json:"result"`
		Error  present         `json:"error"`
	}
	err := json.Unmarshal(line, &outside)
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax {
		return m, errorLine(nil, parseError, "the line is not valid JSON; send one JSON-RPC message a line")
	}
	id := validID(outside.ID)
	if err != nil || outside.Method == "" && !outside.Result && !outside.Error {
		return m, errorLine(id, invalidRequest, "the line is not a JSON-RPC request, notification or response")
	}
	if outside.ID != nil && id == nil {
		return m, errorLine(nil, invalidRequest, "the id of a request must be a short string or a number")
	}
	return message{id: id, method: outside.Method}, nil
}

// large is the size of a call from which on its arguments go by the library.
const large = 64 << 10

// A span is the bytes of a value in the text that it is decoded from.
type span []byte

// UnmarshalJSON implements json.Unmarshaler, against whose advice it keeps p: it
// is part of the whole text, which stays.
func (s *span) UnmarshalJSON(p []byte) error {
	*s = p
	return nil
}

// apart takes the arguments out of a call of a tool. Where that cannot be done
// they are nil and the line is as it was.
func apart(line []byte) (rest []byte, arguments json.RawMessage) {
	var request struct {
		Params struct {
			Arguments span `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &request) != nil {
		return line, nil
	}
	a := request.Params.Arguments
	start := cap(line) - cap(a) // they have the same end
	if len(a) == 0 || start < 0 || start+len(a) > len(line) || &line[start] != &a[0] {
		return line, nil
	}
	return slices.Concat(line[:start], []byte("{}"), line[start+len(a):]), json.RawMessage(a)
}

// validID returns id if it is a string or a number that can be sent back, and
// nil otherwise.
func validID(id json.RawMessage) json.RawMessage {
	id = bytes.TrimSpace(id)
	if len(id) == 0 || len(id) > maxID || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return nil
	}
	return id
}

// keyOf returns a text that is the same for ids that are: the string "1" is not
// the number 1.
func keyOf(id json.RawMessage) string {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return "string " + s
	}
	return "number " + string(id)
}

// encode makes the line of a response of the library's, with the id as the
// client wrote it: the library's ids are float64. A nil response is the
// library's way to say that the request is none.
func encode(id json.RawMessage, response protocol.JSONRPCMessage) ([]byte, error) {
	switch r := response.(type) {
	case nil:
		return errorLine(id, invalidRequest, "the message is a request and a response at once"), nil
	case protocol.JSONRPCResponse:
		r.ID = protocol.NewRequestId(id)
		response = r
	case protocol.JSONRPCError:
		r.ID = protocol.NewRequestId(id)
		if len(r.Error.Message) > maxErrorText {
			r.Error.Message = string(bytes.ToValidUTF8([]byte(r.Error.Message[:maxErrorText]), nil)) + "…"
		}
		response = r
	}
	line, err := json.Marshal(response)
	return append(line, '\n'), err
}

// errorLine returns the line of an error that answers id, which may be nil.
func errorLine(id json.RawMessage, code int, text string) []byte {
	var sent any
	if id != nil {
		sent = id
	}
	line, err := json.Marshal(protocol.JSONRPCError{
		JSONRPC: protocol.JSONRPC_VERSION,
		ID:      protocol.NewRequestId(sent),
		Error:   protocol.JSONRPCErrorDetails{Code: code, Message: text},
	})
	if err != nil && id != nil {
		return errorLine(nil, code, text)
	}
	return append(line, '\n')
}
