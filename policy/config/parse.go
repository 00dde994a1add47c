package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"cloche.dev/cloche/policy/nearest"
)

// Parse reads text, a whole configuration; name is what problems call it. What
// text does not set has its default. An error is an *Error with every problem
// there is, and the Config is then not to be used.
func Parse(name string, text []byte) (Config, error) {
	src := strings.TrimPrefix(string(text), mark)
	p := &parser{file: name, text: src, config: Default(), wrong: map[string]bool{}}
	if off := notUTF8(src); off >= 0 {
		p.report(off, "not TOML: not UTF-8 text")
		return Config{}, &Error{p.problems}
	}
	tree, err := decode(src)
	if err != nil {
		p.syntax(err)
		return Config{}, &Error{p.problems}
	}
	p.places = locate(src)
	p.doubles()
	p.table("", tree)
	p.rules()
	if len(p.problems) == 0 {
		return p.config, nil
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return Config{}, &Error{p.problems}
}

// mark is the byte order mark that some editors begin a file with.
const mark = "\ufeff"

// notUTF8 returns where text stops to be UTF-8, -1 if it does not. It knows a
// mark as well: the library drops any first bytes that look like one of UTF-8 or
// UTF-16, and its places would then be others than ours.
func notUTF8(text string) int {
	if strings.HasPrefix(text, mark) {
		return 0
	}
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return i
		}
	}
	return -1
}

// decode is the library's Decode, without its panics: a mistake in it must not
// end a server that reads its configuration again.
func decode(text string) (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the TOML parser gave up: %v", r)
		}
	}()
	_, err = toml.Decode(text, &tree)
	return tree, err
}

// A parser is one Parse.
type parser struct {
	file     string
	text     string
	places   *locator
	config   Config
	problems []Problem
	wrong    map[string]bool // keys and tables with a problem of their own, in full
}

// report adds a problem at a byte of the text; -1 is no place.
func (p *parser) report(offset int, format string, args ...any) {
	if len(p.problems) == maxProblems {
		return
	}
	problem := Problem{File: p.file, Text: fmt.Sprintf(format, args...)}
	if offset >= 0 {
		problem.Line, problem.Column = place(p.text, offset)
	}
	p.problems = append(p.problems, problem)
}

// syntax reports that the text is not TOML.
func (p *parser) syntax(err error) {
	pe, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		p.report(-1, "%s", err)
		return
	}
	p.report(max(pe.Position.Start, 0), "not TOML: %s", strings.TrimSuffix(pe.Message, "."))
}

// doubles reports keys that are set although they were there before; the
// library takes some of those and drops the value.
func (p *parser) doubles() {
	for _, path := range p.places.doubles {
		parts := strings.Split(path, "\x00")
		line, _ := place(p.text, p.places.keyAt(parts...))
		p.report(p.places.valueAt(parts...), "%s is set here, but was there before, in line %d", dotted(parts), line)
	}
}

// table checks the table called name, "" for the whole file, and sets what is in it.
func (p *parser) table(name string, tree map[string]any) {
	known, _ := tableNamed(name)
	for _, k := range slices.Sorted(maps.Keys(tree)) {
		full := join(name, k)
		if i := slices.IndexFunc(known.keys, func(of key) bool { return of.name == k }); i >= 0 {
			p.set(full, known.keys[i].kind, tree[k])
			continue
		}
		sub, isTable := tree[k].(map[string]any)
		switch _, ok := tableNamed(full); {
		case !ok || strings.Contains(k, "."):
			p.unknown(name, k, tree[k])
		case !isTable:
			p.wrong[full] = true
			p.report(p.places.valueAt(split(full)...), "%s = %s: must be a table; write [%s] on a line and its keys below",
				full, show(tree[k]), full)
		default:
			p.table(full, sub)
		}
	}
}

// set gives the key called full, in full, the value v.
func (p *parser) set(full string, k kind, v any) {
	path := split(full)
	k.set(&p.config, v, func(elem int, v any, allowed string) {
		p.wrong[full] = true
		what, at := full, path
		if elem != itself {
			what = fmt.Sprintf("%s[%d]", full, elem)
			at = append(path, strconv.Itoa(elem))
		}
		p.report(p.places.valueAt(at...), "%s = %s: must be %s", what, show(v), allowed)
	})
}

// unknown reports the key or table k in the table called name.
func (p *parser) unknown(name, k string, v any) {
	path := append(split(name), k)
	what := fmt.Sprintf("key %q in [%s]", cut(k), name)
	if name == "" {
		what = fmt.Sprintf("key %q outside of any table", cut(k))
	}
	switch v.(type) {
	case map[string]any, []map[string]any:
		what = "table [" + dotted(path) + "]"
	}
	hint, names := "", namesIn(name)
	if near := nearest.To(k, names); near != "" {
		hint = fmt.Sprintf(" did you mean %q?", near)
	} else if home := homeOf(k); home != "" {
		hint = fmt.Sprintf(" it belongs in [%s];", home)
	}
	p.report(p.places.keyAt(path...), "unknown %s;%s allowed here: %s", what, hint, strings.Join(names, ", "))
}

// rules checks what holds between keys.
func (p *parser) rules() {
	for _, r := range rules {
		if slices.ContainsFunc(r.keys, func(full string) bool { return p.wrong[full] }) {
			continue
		}
		text := r.broken(&p.config)
		if text == "" {
			continue
		}
		at := -1
		for _, full := range r.keys {
			if at < 0 {
				at = p.places.valueAt(split(full)...)
			}
		}
		p.report(at, "%s", text)
	}
}

// tableNamed returns the table of that full name.
func tableNamed(name string) (table, bool) {
	i := slices.IndexFunc(tables, func(t table) bool { return t.name == name })
	if i < 0 {
		return table{}, false
	}
	return tables[i], true
}

// namesIn returns what may stand in a table: its keys, and the tables below it.
func namesIn(name string) []string {
	var names []string
	for _, t := range tables {
		if t.name == name {
			for _, k := range t.keys {
				names = append(names, k.name)
			}
		}
		if sub, ok := strings.CutPrefix(t.name, join(name, "")); ok && !strings.Contains(sub, ".") {
			names = append(names, sub)
		}
	}
	return names
}

// homeOf returns the full name of the table with a key of that name, "" if there
// is none.
func homeOf(name string) string {
	for _, t := range tables {
		if slices.ContainsFunc(t.keys, func(k key) bool { return k.name == name }) {
			return t.name
		}
	}
	return ""
}

// join and split make a full name out of a table's and a key's, and parts of it.
func join(name, k string) string {
	if name == "" {
		return k
	}
	return name + "." + k
}

func split(full string) []string {
	if full == "" {
		return nil
	}
	return strings.Split(full, ".")
}

// show returns a value of the file as a message shows it.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return quote(cut(v))
	case float64:
		return decimal(v)
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "a list of tables"
	case time.Time:
		return "a date or time"
	default: // a whole number, true or false
		return fmt.Sprint(v)
	}
}

// dotted returns a path as TOML writes it, cut to what a message can bear.
func dotted(path []string) string { return cut(toml.Key(path).String()) }
