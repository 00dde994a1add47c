package config

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A kind is what a key's value may be.
type kind struct {
	// allowed ends the sentence "must be …"; hint goes on with how it is written.
	allowed, hint string
	// set puts v, as the library decoded it, into c, or says what is bad.
	set func(c *Config, v any, bad report)
	// print returns the value in c as TOML.
	print func(c *Config) string
}

// A report takes one mistake: v must be what allowed says. elem is the index of
// v in the key's list, or itself for the key's value as a whole.
type report func(elem int, v any, allowed string)

const itself = -1

// scalar makes a kind of a single value, which from reads.
func scalar[T any](allowed, hint string, at func(*Config) *T, from func(v any) (T, bool), text func(T) string) kind {
	return kind{
		allowed: allowed,
		hint:    hint,
		set: func(c *Config, v any, bad report) {
			t, ok := from(v)
			if !ok {
				bad(itself, v, allowed+hint)
				return
			}
			*at(c) = t
		},
		print: func(c *Config) string { return text(*at(c)) },
	}
}

func duration(least, most time.Duration, at func(*Config) *Duration) kind {
	allowed := fmt.Sprintf("a time from %q to %q", Duration(least), Duration(most))
	from := func(v any) (Duration, bool) {
		s, _ := v.(string)
		d, err := time.ParseDuration(s)
		return Duration(d), err == nil && least <= d && d <= most
	}
	return scalar(allowed, `, such as "30s", "15m" or "1h30m"`, at, from, func(d Duration) string { return quote(d.String()) })
}

func size(least, most Size, at func(*Config) *Size) kind {
	allowed := fmt.Sprintf("a size from %q to %q", least, most)
	from := func(v any) (Size, bool) {
		var s Size
		var err error
		switch v := v.(type) {
		case int64:
			s = Size(v)
		case string:
			s, err = ParseSize(v)
		default:
			return 0, false
		}
		return s, err == nil && least <= s && s <= most
	}
	return scalar(allowed, ", in B, kB, MB, GB, TB or KiB, MiB, GiB, TiB, without a fraction", at, from, func(s Size) string { return quote(s.String()) })
}

func whole[T int | int64](least, most T, at func(*Config) *T) kind {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, most)
	from := func(v any) (T, bool) {
		n, ok := v.(int64)
		return T(n), ok && int64(least) <= n && n <= int64(most)
	}
	return scalar(allowed, "", at, from, func(n T) string { return strconv.FormatInt(int64(n), 10) })
}

func number(least, most float64, at func(*Config) *float64) kind {
	allowed := fmt.Sprintf("a number from %g to %g", least, most)
	from := func(v any) (float64, bool) {
		var f float64
		switch v := v.(type) {
		case int64:
			f = float64(v)
		case float64:
			f = v
		default:
			return 0, false
		}
		return f, least <= f && f <= most // which NaN is not
	}
	return scalar(allowed, "", at, from, decimal)
}

// orAuto makes a kind of k that may also be "auto", for which its zero value
// stands, which k itself does not allow.
func orAuto[T comparable](k kind, at func(*Config) *T) kind {
	const auto = "auto"
	var zero T
	return kind{
		allowed: quote(auto) + " or " + k.allowed,
		hint:    k.hint,
		set: func(c *Config, v any, bad report) {
			if v == auto {
				*at(c) = zero
				return
			}
			k.set(c, v, func(elem int, v any, allowed string) { bad(elem, v, quote(auto)+" or "+allowed) })
		},
		print: func(c *Config) string {
			if *at(c) == zero {
				return quote(auto)
			}
			return k.print(c)
		},
	}
}

func choice(at func(*Config) *string, names ...string) kind {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(n)
	}
	allowed := strings.Join(quoted, " or ")
	if len(names) > 2 {
		allowed = "one of " + strings.Join(quoted, ", ")
	}
	from := func(v any) (string, bool) {
		s, _ := v.(string)
		return s, slices.Contains(names, s)
	}
	return scalar(allowed, "", at, from, quote)
}

// A list is a list of strings of one sort.
type list struct {
	most    int
	allowed string // of an element
	ok      func(s string) bool
}

// read returns the strings in v. It reports each element that is wrong and then
// returns false.
func (l list) read(v any, allowed string, bad report) ([]string, bool) {
	elems, ok := v.([]any)
	if !ok || len(elems) > l.most {
		bad(itself, v, allowed)
		return nil, false
	}
	var all []string
	for i, e := range elems {
		s, isString := e.(string)
		if !isString || !l.ok(s) {
			bad(i, e, l.allowed)
			ok = false
		}
		all = append(all, s)
	}
	return all, ok
}

func printList(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func patterns(at func(*Config) *[]string) kind {
	l := list{256, `a name or pattern relative to /usr, such as "share/doc" or "lib/secret*", without "..", backslash or control characters`, isPattern}
	allowed := fmt.Sprintf("a list of at most %d names or patterns relative to /usr, in which * ? [a-z] match within one name", l.most)
	return kind{
		allowed: allowed,
		set: func(c *Config, v any, bad report) {
			if all, ok := l.read(v, allowed, bad); ok {
				*at(c) = all
			}
		},
		print: func(c *Config) string { return printList(*at(c)) },
	}
}

func isPattern(s string) bool {
	if !fs.ValidPath(s) || s == "." || strings.ContainsFunc(s, isOdd) {
		return false
	}
	_, err := path.Match(s, "")
	return err == nil
}

// isOdd tells of characters that have no place in a pattern. A backslash would
// be a second way to write a name.
func isOdd(r rune) bool { return r == '\\' || unicode.IsControl(r) }

func preload(at func(*Config) *Preload) kind {
	l := list{64, `the name of a Python module, such as "matplotlib.pyplot"`, isModule}
	allowed := fmt.Sprintf(`"auto" or a list of at most %d names of Python modules`, l.most)
	return kind{
		allowed: allowed,
		set: func(c *Config, v any, bad report) {
			if v == "auto" {
				*at(c) = Preload{Auto: true}
				return
			}
			if all, ok := l.read(v, allowed, bad); ok {
				*at(c) = Preload{Modules: all}
			}
		},
		print: func(c *Config) string {
			if at(c).Auto {
				return quote("auto")
			}
			return printList(at(c).Modules)
		},
	}
}

func isModule(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		for i, r := range part {
			letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
			if !letter && (i == 0 || r < '0' || r > '9') {
				return false
			}
		}
		if part == "" {
			return false
		}
	}
	return len(s) <= 200
}
