// Package repotest is the repository's test of itself: its layers, who may
// import what, its package comments, the shape of its tree and the parts of its
// documents that are generated. The rules are in the tests; what other tests
// need, to keep their part of a document up to date, is here.
package repotest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloche.dev/cloche/cmd/internal/build"
)

// updateVariable is the environment variable that, set to 1, has generated
// parts written instead of compared.
const updateVariable = "CLOCHE_UPDATE"

// Generated checks that the part name of the document file, a path from the top
// of the repository, is want. Under CLOCHE_UPDATE=1 it writes want there.
func Generated(tb testing.TB, file, name, want string) {
	tb.Helper()
	path := filepath.Join(build.Root(tb), filepath.FromSlash(file))
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	got, err := Section(string(text), name)
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	if strings.TrimSpace(got) == strings.TrimSpace(want) {
		return
	}
	if os.Getenv(updateVariable) != "1" {
		tb.Fatalf("the part %q of %s is out of date; %s=1 writes it anew; got:\n%s\nwant:\n%s",
			name, file, updateVariable, got, want)
	}
	renewed, err := ReplaceSection(string(text), name, want)
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	if err := os.WriteFile(path, []byte(renewed), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// Section returns what stands in text between the lines <!-- name --> and
// <!-- /name -->. Each of the two must be there once, in this order.
func Section(text, name string) (string, error) {
	start, end, err := section(text, name)
	if err != nil {
		return "", err
	}
	return text[start:end], nil
}

// ReplaceSection returns text with body as the section name.
func ReplaceSection(text, name, body string) (string, error) {
	start, end, err := section(text, name)
	if err != nil {
		return "", err
	}
	// The empty lines make Markdown take the body as Markdown again.
	return text[:start] + "\n" + strings.TrimSpace(body) + "\n\n" + text[end:], nil
}

// section returns where the section name starts and ends, markers left out.
func section(text, name string) (start, end int, err error) {
	opening, closing := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	for _, marker := range []string{opening, closing} {
		if n := strings.Count(text, marker); n != 1 {
			return 0, 0, fmt.Errorf("the line %q is there %d times, not once", strings.TrimSpace(marker), n)
		}
	}
	start, end = strings.Index(text, opening)+len(opening), strings.Index(text, closing)
	if end < start {
		return 0, 0, fmt.Errorf("%q is closed before it is opened", name)
	}
	return start, end, nil
}
