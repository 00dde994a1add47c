// Package schema makes the JSON Schema of a tool's arguments from a Go struct,
// and checks what an agent sends against it, in words that a model can act on.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// For returns the schema of the struct A: its properties in the order of A's
// fields, each described by the field's tag `jsonschema:"description"`, required
// unless the json tag says omitempty or omitzero, and no others allowed. The
// same A and edits give the same bytes.
//
// It panics when A is not a struct that JSON Schema can describe, or when an
// edit names no property of A: mistakes of the program, not of its users.
func For[A any](edits ...Edit) json.RawMessage {
	raw, err := build(reflect.TypeFor[A](), edits)
	if err != nil {
		panic(fmt.Sprintf("schema of %v: %v", reflect.TypeFor[A](), err))
	}
	return raw
}

func build(t reflect.Type, edits []Edit) (json.RawMessage, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a struct", t.Kind())
	}
	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		return nil, err
	}
	for _, e := range edits {
		if s.Properties[e.property] == nil {
			return nil, fmt.Errorf("no property %q", e.property)
		}
		if err := e.apply(s); err != nil {
			return nil, fmt.Errorf("property %q: %w", e.property, err)
		}
	}
	if s.Properties == nil {
		// Some clients refuse an object without the keyword.
		s.Properties = map[string]*jsonschema.Schema{}
	}
	withoutNull(s)
	return json.Marshal(s)
}

// withoutNull takes "null" out of the types of s and of all below it: pointers
// and slices get it, but for an agent null means absent, which Check sees to.
func withoutNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	withoutNull(s.Items)
	withoutNull(s.AdditionalProperties)
	for _, p := range s.Properties {
		withoutNull(p)
	}
}

// An Edit adds to a property what a struct tag cannot say because it is known
// only when the server starts.
type Edit struct {
	property string
	apply    func(s *jsonschema.Schema) error
}

// Range sets the least and the most that a number may be.
func Range(property string, least, most float64) Edit {
	return Edit{property, func(s *jsonschema.Schema) error {
		if least > most {
			return fmt.Errorf("range from %v to %v", least, most)
		}
		s.Properties[property].Minimum = &least
		s.Properties[property].Maximum = &most
		return nil
	}}
}

// Default tells the agent what is taken when the property is absent. Check does
// not fill it in.
func Default(property string, value any) Edit {
	return Edit{property, func(s *jsonschema.Schema) error {
		raw, err := json.Marshal(value)
		s.Properties[property].Default = raw
		return err
	}}
}

// Enum sets the only strings that the property may be.
func Enum(property string, values ...string) Edit {
	return Edit{property, func(s *jsonschema.Schema) error {
		enum := make([]any, 0, len(values))
		for _, v := range values {
			enum = append(enum, v)
		}
		s.Properties[property].Enum = enum
		return nil
	}}
}

// Without leaves the property out, so that Check refuses it: for an argument
// that the policy has switched off.
func Without(property string) Edit {
	return Edit{property, func(s *jsonschema.Schema) error {
		same := func(name string) bool { return name == property }
		delete(s.Properties, property)
		s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, same)
		s.Required = slices.DeleteFunc(s.Required, same)
		return nil
	}}
}
