package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"cloche.dev/cloche/policy/nearest"
)

const (
	// maxProblems is how many problems one error tells.
	maxProblems = 5
	// maxUnknown is how many unknown names of one object it tells.
	maxUnknown = 3
	// maxEcho is how many bytes of an agent's value it repeats.
	maxEcho = 100
)

// problems says what is wrong, by the path of the value; one problem a value.
type problems map[string]string

// add tells what is wrong with the value at path. The first problem stays.
func (ps *problems) add(path []string, what string) {
	if *ps == nil {
		*ps = problems{}
	}
	name := dotted(path)
	if _, ok := (*ps)[name]; !ok {
		(*ps)[name] = "argument " + name + " " + what
	}
}

// addAll adds what the validator found.
func (ps *problems) addAll(root *jsonschema.Schema, arguments any, err *jsonschema.ValidationError) {
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range err.Causes {
			ps.addAll(root, arguments, cause)
		}
	case *kind.Required:
		parent := at(root, err.InstanceLocation)
		for _, name := range k.Missing {
			child, _ := property(parent, name)
			ps.set(err.InstanceLocation, name, fmt.Sprintf("argument %s is missing, it must be %s",
				dotted(append(slices.Clone(err.InstanceLocation), name)), want(child)))
		}
	case *kind.AdditionalProperties:
		ps.unknown(at(root, err.InstanceLocation), err.InstanceLocation, k.Properties)
	default:
		ps.add(err.InstanceLocation, "must be "+want(at(root, err.InstanceLocation))+", not "+echo(find(arguments, err.InstanceLocation)))
	}
}

// set is add with the whole text.
func (ps *problems) set(path []string, name, text string) {
	if *ps == nil {
		*ps = problems{}
	}
	(*ps)[dotted(append(slices.Clone(path), name))] = text
}

// unknown adds names that the object at path may not have.
func (ps *problems) unknown(node *jsonschema.Schema, path, names []string) {
	known := make([]string, 0, len(node.Properties))
	for name := range node.Properties {
		known = append(known, name)
	}
	slices.Sort(known)
	allowed := "it takes none"
	if len(known) > 0 {
		allowed = "allowed are " + strings.Join(known, ", ")
	}
	slices.Sort(names)
	for i, name := range names[:min(len(names), maxUnknown)] {
		text := "unknown argument " + dotted(append(slices.Clone(path), name))
		if near := nearest.To(name, known); near != "" {
			text += ", did you mean " + near + "?"
		}
		if i == 0 {
			text += " (" + allowed + ")"
		}
		if more := len(names) - maxUnknown; i == maxUnknown-1 && more > 0 {
			text += fmt.Sprintf(" and %d more unknown", more)
		}
		ps.set(path, name, text)
	}
}

// text returns the problems in one line, in the order of their paths.
func (ps problems) text() string {
	paths := make([]string, 0, len(ps))
	for path := range ps {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var texts []string
	for _, path := range paths[:min(len(paths), maxProblems)] {
		texts = append(texts, ps[path])
	}
	if more := len(paths) - maxProblems; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more problems", more))
	}
	return strings.Join(texts, "; ")
}

// at returns what the schema wants at path, never nil.
func at(node *jsonschema.Schema, path []string) *jsonschema.Schema {
	for _, step := range path {
		var next *jsonschema.Schema
		if node = target(node); node != nil {
			if next, _ = property(node, step); next == nil {
				next = items(node)
			}
		}
		node = next
	}
	if node = target(node); node == nil {
		return &jsonschema.Schema{}
	}
	return node
}

// find returns the value at path.
func find(v any, path []string) any {
	for _, step := range path {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(parent) {
				v = parent[i]
			}
		}
	}
	return v
}

// want says what node wants, after "must be".
func want(node *jsonschema.Schema) string {
	if node == nil || free(node) && node.Enum == nil {
		return "what the tool's schema says"
	}
	if node.Enum != nil {
		var values []string
		for _, v := range node.Enum.Values {
			raw, err := encode(v)
			if err == nil {
				values = append(values, string(raw))
			}
		}
		return "one of " + strings.Join(values, ", ")
	}
	var kinds []string
	for _, t := range node.Types.ToStrings() {
		switch t {
		case "boolean":
			kinds = append(kinds, "true or false")
		case "integer":
			kinds = append(kinds, "an integer"+bounds(node))
		case "number":
			kinds = append(kinds, "a number"+bounds(node))
		case "string":
			kinds = append(kinds, "a string"+count(node.MinLength, node.MaxLength, " of", "characters")+pattern(node))
		case "array":
			kinds = append(kinds, "an array"+count(node.MinItems, node.MaxItems, " of", "items")+each(node))
		case "object":
			kinds = append(kinds, "an object"+count(node.MinProperties, node.MaxProperties, " of", "values"))
		case "null":
			kinds = append(kinds, "null")
		}
	}
	return strings.Join(kinds, " or ")
}

// bounds says between which numbers node wants one.
func bounds(node *jsonschema.Schema) string {
	switch least, most := node.Minimum, node.Maximum; {
	case node.ExclusiveMinimum != nil || node.ExclusiveMaximum != nil || node.MultipleOf != nil:
		return " that the tool's schema allows"
	case least != nil && most != nil:
		return " from " + plain(least) + " to " + plain(most)
	case least != nil:
		return " of at least " + plain(least)
	case most != nil:
		return " of at most " + plain(most)
	}
	return ""
}

func plain(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// count says how many there must be.
func count(least, most *int, of, what string) string {
	switch {
	case least != nil && most != nil:
		return fmt.Sprintf("%s %d to %d %s", of, *least, *most, what)
	case least != nil:
		return fmt.Sprintf("%s at least %d %s", of, *least, what)
	case most != nil:
		return fmt.Sprintf("%s at most %d %s", of, *most, what)
	}
	return ""
}

func pattern(node *jsonschema.Schema) string {
	if node.Pattern == nil {
		return ""
	}
	return " that matches " + node.Pattern.String()
}

func each(node *jsonschema.Schema) string {
	item := items(node)
	if item == nil || free(item) {
		return ""
	}
	return ", each item " + want(item)
}

// dotted writes a path as a program would: "files[0].path", quoted.
func dotted(path []string) string {
	var b strings.Builder
	for i, step := range path {
		_, err := strconv.ParseUint(step, 10, 32)
		switch {
		case i > 0 && err == nil:
			b.WriteString("[" + step + "]")
		case i > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return quote(b.String())
}

// echo shows a value of the agent, in one line of at most maxEcho bytes.
func echo(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return clip(string(v))
	case string:
		return quote(v)
	case []any:
		return "an array"
	}
	return "an object"
}

// quote escapes s for one line.
func quote(s string) string {
	if len(s) > maxEcho {
		s = s[:maxEcho] // Escaping all of it would be wasted.
	}
	return clip(strconv.Quote(s))
}

// clip cuts s to maxEcho bytes.
func clip(s string) string {
	if len(s) <= maxEcho {
		return s
	}
	end := maxEcho - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
