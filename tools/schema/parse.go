package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"cloche.dev/cloche/policy/fault"
)

const (
	// maxDepth is how deep arguments may be nested: more than any tool wants.
	maxDepth = 64
	// maxNumber is how long a number may be written.
	maxNumber = 40
	// maxExponent keeps numbers small for those who compute with them exactly.
	maxExponent = 308
)

// parse reads arguments, which may be anything, as one JSON object: maps, slices,
// strings, json.Number, bool and nil. It is stricter than encoding/json: no key
// twice, no NUL, no halves of surrogate pairs, nothing too deep or too large.
// Its errors are faults.
func parse(arguments json.RawMessage) (map[string]any, error) {
	trimmed := bytes.TrimSpace(arguments)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return map[string]any{}, nil
	}
	if !utf8.Valid(arguments) {
		return nil, fault.New(fault.Invalid, "the arguments are not valid UTF-8; send them as UTF-8")
	}
	var valid json.RawMessage
	if err := json.Unmarshal(arguments, &valid); err != nil {
		at := int64(len(arguments))
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = syntax.Offset
		}
		return nil, fault.Wrap(fault.Invalid, err, "the arguments are not valid JSON near byte %d; send one JSON object", at)
	}
	if trimmed[0] != '{' {
		return nil, fault.New(fault.Invalid, "the arguments must be one JSON object, not %s; send the values under their names", nameOf(trimmed[0]))
	}
	if err := checkEscapes(arguments); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(arguments))
	dec.UseNumber()
	v, err := value(dec, 1)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// nameOf names the JSON value that begins with first.
func nameOf(first byte) string {
	switch first {
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}

// checkEscapes refuses the \u escapes that stand for no character that a tool
// can use. Preconditions: raw is valid JSON.
func checkEscapes(raw []byte) error {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // What follows a backslash is never another escape's begin.
		if raw[i] != 'u' {
			continue
		}
		r, at := unit(raw[i+1:]), i-1
		i += 4
		if r == 0 {
			return fault.New(fault.Invalid, "a text in the arguments holds a NUL character (byte %d); remove it and call again", at)
		}
		if !utf16.IsSurrogate(r) {
			continue
		}
		next := raw[i+1:]
		if len(next) < 6 || next[0] != '\\' || next[1] != 'u' || utf16.DecodeRune(r, unit(next[2:])) == unicode.ReplacementChar {
			return fault.New(fault.Invalid, "a text in the arguments holds half of a surrogate pair (byte %d); send whole characters", at)
		}
		i += 6
	}
	return nil
}

// unit returns the code unit that four hexadecimal digits name.
func unit(digits []byte) rune {
	u, err := strconv.ParseUint(string(digits[:4]), 16, 16)
	if err != nil {
		return unicode.ReplacementChar
	}
	return rune(u)
}

// value reads the next value, which is nested depth deep if it is an object or
// an array. Preconditions: dec reads valid JSON.
func value(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the arguments are not valid JSON; send one JSON object")
	}
	switch t := token.(type) {
	case json.Delim:
		if depth > maxDepth {
			return nil, fault.New(fault.Invalid, "the arguments are nested more than %d deep; send them flatter", maxDepth)
		}
		if t == '[' {
			return array(dec, depth)
		}
		return object(dec, depth)
	case json.Number:
		if !bearable(string(t)) {
			return nil, fault.New(fault.Invalid, "the number %s in the arguments is too large or too long; send a smaller one", clip(string(t)))
		}
	}
	return token, nil
}

func array(dec *json.Decoder, depth int) ([]any, error) {
	list := []any{}
	for dec.More() {
		v, err := value(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := dec.Token()
	return list, err
}

func object(dec *json.Decoder, depth int) (map[string]any, error) {
	m := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if _, twice := m[key]; twice {
			return nil, fault.New(fault.Invalid, "the arguments hold %s twice in one object; send it once", quote(key))
		}
		if m[key], err = value(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return m, err
}

// bearable reports whether the number is one that a float64 holds and that exact
// arithmetic does not blow up on.
func bearable(number string) bool {
	if len(number) > maxNumber {
		return false
	}
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(number[at+1:])
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return false
		}
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}
