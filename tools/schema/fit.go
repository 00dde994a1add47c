package schema

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fitting makes harmless differences between values and their schema good.
type fitting struct {
	changed  bool
	problems problems
}

// object fits the values of m, in place, and removes the nulls that mean absent.
func (f *fitting) object(node *jsonschema.Schema, m map[string]any, path []string) {
	for key, v := range m {
		child, known := property(node, key)
		if v == nil && known && !allows(child, "null") {
			delete(m, key)
			f.changed = true
			continue
		}
		m[key] = f.value(child, v, append(path, key))
	}
}

// value returns v as node wants it, or as it is if that takes more than a change
// of its notation. A nil node wants nothing.
func (f *fitting) value(node *jsonschema.Schema, v any, path []string) any {
	node = target(node)
	if node == nil {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		f.object(node, v, path)
	case []any:
		for i, item := range v {
			v[i] = f.value(items(node), item, append(path, strconv.Itoa(i)))
		}
	case string:
		if fitted, ok := fromString(node, v); ok {
			f.changed = true
			return f.value(node, fitted, path)
		}
	case json.Number:
		return f.number(node, v, path)
	}
	return v
}

// number writes an integer in digits alone, as encoding/json wants it: 5 for 5.0
// and 5e0. An integer that no int64 holds is a problem.
func (f *fitting) number(node *jsonschema.Schema, v json.Number, path []string) any {
	if !allows(node, "integer") || allows(node, "number") || free(node) {
		return v
	}
	r, ok := new(big.Rat).SetString(string(v))
	if !ok || !r.IsInt() {
		return v
	}
	if !r.Num().IsInt64() {
		f.problems.add(path, "is too large, it is "+clip(string(v)))
		return v
	}
	digits := json.Number(r.Num().String())
	f.changed = f.changed || digits != v
	return digits
}

// fromString returns the number or boolean that s is the text of, where node
// wants one and no string.
func fromString(node *jsonschema.Schema, s string) (any, bool) {
	if free(node) || allows(node, "string") {
		return nil, false
	}
	if allows(node, "boolean") {
		if lower := strings.ToLower(s); lower == "true" || lower == "false" {
			return lower == "true", true
		}
	}
	if allows(node, "integer") || allows(node, "number") {
		if isNumber := s != "" && strings.Trim(s, "0123456789+-.eE") == "" && json.Valid([]byte(s)); isNumber && bearable(s) {
			return json.Number(s), true
		}
	}
	return nil, false
}

// target follows references.
func target(node *jsonschema.Schema) *jsonschema.Schema {
	for range maxDepth {
		if node == nil || node.Ref == nil {
			return node
		}
		node = node.Ref
	}
	return nil
}

// property returns what node wants of the value at key, nil if anything goes,
// and whether node says anything about it, if only that it may not be there.
func property(node *jsonschema.Schema, key string) (child *jsonschema.Schema, known bool) {
	if child, ok := node.Properties[key]; ok {
		return target(child), true
	}
	switch more := node.AdditionalProperties.(type) {
	case *jsonschema.Schema:
		return target(more), true
	case bool:
		return nil, !more
	}
	return nil, false
}

// items returns what node wants of the items of an array, nil if anything goes.
func items(node *jsonschema.Schema) *jsonschema.Schema {
	if len(node.PrefixItems) > 0 {
		return nil
	}
	return target(node.Items2020)
}

// free reports whether node allows values of any type.
func free(node *jsonschema.Schema) bool {
	return node == nil || node.Types == nil || node.Types.IsEmpty()
}

// allows reports whether node takes values of the type.
func allows(node *jsonschema.Schema, name string) bool {
	return node != nil && (free(node) || slices.Contains(node.Types.ToStrings(), name))
}

// only reports whether name is the only type that node allows.
func only(node *jsonschema.Schema, name string) bool {
	return !free(node) && slices.Equal(node.Types.ToStrings(), []string{name})
}
