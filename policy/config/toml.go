package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TOML returns the whole policy as a configuration file without comments, every
// key set. Parse makes c of it again, and equal policies have equal texts.
func (c Config) TOML() string {
	var b strings.Builder
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[%s]\n", t.name)
		for _, k := range t.keys {
			fmt.Fprintf(&b, "%s = %s\n", k.name, k.kind.print(&c))
		}
	}
	return b.String()
}

// Digest names the policy: equal digests are equal policies.
func (c Config) Digest() string { return digest(c.TOML()) }

// SandboxDigest is a Digest of what a sandbox is made by, so that a sandbox of
// an earlier policy is known. How long one is kept does not count.
func (c Config) SandboxDigest() string {
	var b strings.Builder
	for _, t := range tables {
		if t.name != "sandbox" && !strings.HasPrefix(t.name, "sandbox.") {
			continue
		}
		for _, k := range t.keys {
			if full := join(t.name, k.name); full != "sandbox.idle" {
				fmt.Fprintf(&b, "%s = %s\n", full, k.kind.print(&c))
			}
		}
	}
	return digest(b.String())
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// Example returns config.example.toml: every key with its default and a comment.
// It loads as Default.
func Example() string {
	var b strings.Builder
	b.WriteString("# The configuration of cloche, with everything at its default: a key that is left\n" +
		"# out has the value shown here. Put it at /etc/cloche/config.toml (a server run by\n" +
		"# root), at $XDG_CONFIG_HOME/cloche/config.toml or ~/.config/cloche/config.toml, or\n" +
		"# pass --config. Nobody but its owner may be able to write it: chmod go-w.\n" +
		"#\n" +
		"# Times are \"30s\", \"15m\" or \"1h30m\". Sizes are \"64 kB\", \"1 GB\" (thousands) or\n" +
		"# \"64 KiB\", \"1 GiB\" (1,024s), without a fraction; a bare number is bytes.\n" +
		"#\n" +
		"# Made from the table in policy/config/keys.go: CLOCHE_UPDATE=1 go test ./policy/config\n")
	c := Default()
	for _, t := range tables {
		b.WriteByte('\n')
		comment(&b, t.doc)
		fmt.Fprintf(&b, "[%s]\n", t.name)
		for _, k := range t.keys {
			b.WriteByte('\n')
			comment(&b, k.doc)
			comment(&b, "Allowed: "+k.kind.allowed+".")
			fmt.Fprintf(&b, "%s = %s\n", k.name, k.kind.print(&c))
		}
	}
	return b.String()
}

// comment writes s as lines of comment.
func comment(b *strings.Builder, s string) {
	const width = 84
	line := "#"
	for word := range strings.FieldsSeq(s) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// decimal returns f as TOML, which wants a point in it.
func decimal(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") && !math.IsInf(f, 0) && !math.IsNaN(f) {
		s += ".0"
	}
	return s
}

// quote returns s as a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
