package repotest

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A source is one Go file: its name without folder, and its text.
type source struct {
	name string
	text string // empty: read the file
}

// comments returns what is wrong with the package comment of the package pkg,
// whose files, tests left out, are files. There must be one, in the file named
// like the package, that begins "Package name " or, for a program, in main.go
// and beginning "Command folder ".
func comments(pkg goPackage, files []source) (problems []string) {
	home, opening := pkg.Name+".go", "Package "+pkg.Name+" "
	if pkg.Name == "main" {
		home, opening = "main.go", "Command "+filepath.Base(pkg.ImportPath)+" "
	}
	found := false
	for _, file := range files {
		var text any
		if file.text != "" {
			text = file.text
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, file.name), text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", pkg.ImportPath, err))
			continue
		}
		comment := parsed.Doc.Text() // without directives
		switch {
		case comment == "":
		case file.name != home:
			problems = append(problems, fmt.Sprintf("%s: %s has a package comment; its place is %s", pkg.ImportPath, file.name, home))
		case !strings.HasPrefix(comment, opening):
			problems = append(problems, fmt.Sprintf("%s: the package comment begins %.30q; want %q", pkg.ImportPath, comment, opening))
		}
		found = found || comment != ""
	}
	if !found {
		problems = append(problems, fmt.Sprintf("%s has no package comment; its place is %s", pkg.ImportPath, home))
	}
	return problems
}

func TestPackageComments(t *testing.T) {
	for _, pkg := range list(t, nil, "./...") {
		var files []source
		for _, name := range slices.Concat(pkg.GoFiles, pkg.CgoFiles, pkg.IgnoredGoFiles) {
			if !strings.HasSuffix(name, "_test.go") {
				files = append(files, source{name: name})
			}
		}
		if len(files) > 0 {
			report(t, comments(pkg, files))
		}
	}
}

func TestPackageCommentRuleFails(t *testing.T) {
	tree := goPackage{ImportPath: module + "/runtime/tree", Name: "tree"}
	program := goPackage{ImportPath: module + "/cmd/cloche", Name: "main"}
	const good, bare = "// Package tree works on trees.\npackage tree\n", "package tree\n"
	for _, test := range []struct {
		name  string
		pkg   goPackage
		files []source
		want  string
	}{
		{"good", tree, []source{{"tree.go", good}, {"errors.go", bare}}, ""},
		{"none", tree, []source{{"tree.go", bare}}, "no package comment"},
		{"apart from the clause", tree, []source{{"tree.go", "// Package tree works.\n\npackage tree\n"}}, "no package comment"},
		{"only a directive", tree, []source{{"tree.go", "//nolint:all // why\npackage tree\n"}}, "no package comment"},
		{"elsewhere", tree, []source{{"tree.go", bare}, {"doc.go", good}}, "doc.go has a package comment"},
		{"twice", tree, []source{{"tree.go", good}, {"errors.go", good}}, "errors.go has a package comment"},
		{"other beginning", tree, []source{{"tree.go", "// Trees.\npackage tree\n"}}, "begins"},
		{"longer name", tree, []source{{"tree.go", "// Package trees works.\npackage tree\n"}}, "begins"},
		{"not Go", tree, []source{{"tree.go", good}, {"x.go", "pakage tree\n"}}, "expected 'package'"},
		{"program", program, []source{{"main.go", "// Command cloche serves.\npackage main\n"}}, ""},
		{"program as package", program, []source{{"main.go", "// Package main serves.\npackage main\n"}}, "begins"},
		{"program elsewhere", program, []source{{"main.go", "package main\n"}, {"cloche.go", "// Command cloche serves.\npackage main\n"}}, "cloche.go has"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, comments(test.pkg, test.files), test.want)
		})
	}
}
