package repotest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloche.dev/cloche/cmd/internal/build"
)

// toolFields are what each literal of a tools.Tool sets, although Go would take
// false for a hint that is left out: each is a decision of the tool's author.
var toolFields = []string{"Title", "Doc", "ReadOnly", "Destructive", "Idempotent", "OpenWorld"}

// hints returns the literals of tools.Tool in a Go file that leave out one of
// toolFields. text nil: read the file.
func hints(name string, text any) (problems []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	isTool := toolType(file)
	check := func(literal *ast.CompositeLit) {
		given := map[string]bool{}
		for _, e := range literal.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok {
					given[key.Name] = true
				}
			}
		}
		missing := slices.DeleteFunc(slices.Clone(toolFields), func(f string) bool { return given[f] })
		if len(missing) > 0 {
			problems = append(problems, fmt.Sprintf("%s: a tool says nothing of %s", set.Position(literal.Pos()), strings.Join(missing, ", ")))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		switch {
		case !ok:
		case isTool(literal.Type):
			check(literal)
		case isTool(element(literal.Type)): // whose elements may leave the type out
			for _, e := range literal.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					e = pair.Value
				}
				if inner, ok := e.(*ast.CompositeLit); ok && inner.Type == nil {
					check(inner)
				}
			}
		}
		return true
	})
	return problems
}

// toolType returns a function that tells the type tools.Tool in file, by the
// name that package tools has there.
func toolType(file *ast.File) func(ast.Expr) bool {
	local := ""
	for _, i := range file.Imports {
		if path, err := strconv.Unquote(i.Path.Value); err == nil && path == module+"/tools" {
			local = "tools"
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	return func(t ast.Expr) bool {
		switch t := t.(type) {
		case *ast.SelectorExpr:
			x, ok := t.X.(*ast.Ident)
			return ok && local != "" && x.Name == local && t.Sel.Name == "Tool"
		case *ast.Ident:
			return t.Name == "Tool" && (file.Name.Name == "tools" || local == ".")
		}
		return false
	}
}

// element returns the type of the elements of t, or of what they point to; nil
// if t has none.
func element(t ast.Expr) ast.Expr {
	switch list := t.(type) {
	case *ast.ArrayType:
		t = list.Elt
	case *ast.MapType:
		t = list.Value
	default:
		return nil
	}
	if pointer, ok := t.(*ast.StarExpr); ok {
		return pointer.X
	}
	return t
}

func TestToolHints(t *testing.T) {
	found := 0
	for _, name := range files(t) {
		if within(name, "tools") && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			found++
			report(t, hints(filepath.Join(build.Root(t), name), nil))
		}
	}
	if found == 0 {
		t.Error("there are no tools; their place has changed")
	}
}

func TestToolHintRuleFails(t *testing.T) {
	const all = `Title: "a", Doc: b, ReadOnly: true, Destructive: false, Idempotent: x(), OpenWorld: false`
	without := func(field string) string { return strings.Replace(all, field+":", "Other:", 1) }
	in := func(literal string) string {
		return "package code\n\nimport \"" + module + "/tools\"\n\nvar x = " + literal + "\n"
	}
	for _, test := range []struct{ name, text, want string }{
		{"all", in("tools.Tool{Name: \"a\", " + all + "}"), ""},
		{"another type", in("tools.Call{}"), ""},
		{"another package", "package code\n\nimport \"example.com/tools\"\n\nvar x = tools.Tool{}\n", ""},
		{"empty", in("tools.Tool{}"), "Title, Doc, ReadOnly, Destructive, Idempotent, OpenWorld"},
		{"no title", in("tools.Tool{" + without("Title") + "}"), "nothing of Title"},
		{"no doc", in("tools.Tool{" + without("Doc") + "}"), "nothing of Doc"},
		{"no read-only", in("tools.Tool{" + without("ReadOnly") + "}"), "nothing of ReadOnly"},
		{"no destructive", in("tools.Tool{" + without("Destructive") + "}"), "nothing of Destructive"},
		{"no idempotent", in("tools.Tool{" + without("Idempotent") + "}"), "nothing of Idempotent"},
		{"no open world", in("tools.Tool{" + without("OpenWorld") + "}"), "nothing of OpenWorld"},
		{"pointer", in("&tools.Tool{" + without("OpenWorld") + "}"), "nothing of OpenWorld"},
		{"inside another", in("f(g{a: []any{tools.Tool{" + without("OpenWorld") + "}}})"), "nothing of OpenWorld"},
		{"list", in("[]tools.Tool{{" + all + "}, {" + without("OpenWorld") + "}}"), "nothing of OpenWorld"},
		{"list of pointers", in("[...]*tools.Tool{{" + without("OpenWorld") + "}}"), "nothing of OpenWorld"},
		{"map", in("map[string]tools.Tool{\"a\": {" + without("OpenWorld") + "}}"), "nothing of OpenWorld"},
		{"in package tools", "package tools\n\nvar x = Tool{" + without("OpenWorld") + "}\n", "nothing of OpenWorld"},
		{"other name", strings.Replace(in("t.Tool{}"), "import ", "import t ", 1), "nothing of Title"},
		{"no keys", in("tools.Tool{\"a\"}"), "nothing of Title"},
		{"not Go", "pakage code\n", "expected 'package'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, hints("tool.go", test.text), test.want)
		})
	}
}
