package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"cloche.dev/cloche/policy/fault"
)

// A Schema checks arguments. It may be used from several goroutines.
type Schema struct {
	root *jsonschema.Schema
}

// Compile reads a JSON Schema of draft 2020-12, which must be that of an object.
// It follows no references to other documents.
func Compile(raw json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	const url = "mem:///arguments"
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("add schema: %w", err)
	}
	root, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	if !only(root, "object") {
		return nil, errors.New(`compile schema: its type is not "object"`)
	}
	return &Schema{root: root}, nil
}

// Check returns arguments as a tool may have them: one JSON object that fits the
// schema, without the nulls that stand for absent values, and with the strings
// "5" and "true" made numbers and booleans where the schema wants those.
// Arguments that need none of this are returned as they came. No arguments at
// all are an empty object.
//
// The error is a *fault.Error of kind Invalid that says what is wrong, what is
// allowed and what to do next, in one line, with at most 100 bytes of any value
// of the agent. The arguments may be anything; Check never panics.
func (s *Schema) Check(arguments json.RawMessage) (json.RawMessage, error) {
	object, err := parse(arguments)
	if err != nil {
		return nil, err
	}
	fit := fitting{}
	fit.object(s.root, object, nil)
	ps := fit.problems
	if err := s.root.Validate(object); err != nil {
		invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
		if !ok {
			return nil, fault.Wrap(fault.Invalid, err, "the arguments do not fit the tool's schema; look at it and call again")
		}
		ps.addAll(s.root, object, invalid)
	}
	if len(ps) > 0 {
		return nil, fault.New(fault.Invalid, "%s; correct this and call again", ps.text())
	}
	if len(object) == 0 || fit.changed {
		return encode(object)
	}
	return arguments, nil
}

// encode writes v with sorted keys and without HTML escapes.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode arguments: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// Decode returns checked arguments as a struct. The error is a *fault.Error of
// kind Invalid.
func Decode[A any](arguments json.RawMessage) (A, error) {
	var a A
	if err := json.Unmarshal(arguments, &a); err != nil {
		return a, fault.Wrap(fault.Invalid, err, "the arguments do not fit the tool's schema; look at it and call again")
	}
	return a, nil
}
