package repotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloche.dev/cloche/cmd/internal/build"
)

// topLevel is all that may stand at the top of the repository, besides files
// and folders that begin with a dot.
var topLevel = []string{
	"cmd", "tools", "runtime", "integrations", "policy", "examples",
	"go.mod", "go.sum", "config.example.toml", "README.md", "LICENSE",
}

// goVersion is the version of Go that go.mod asks for: the least with the
// fixes of os.Root that package runtime/tree relies on.
const goVersion = "1.26.8"

// maxLines bounds a Go file that is neither a test nor generated.
const maxLines = 400

var generatedCode = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// words are what no file may say, with the reason. They are written so that
// they do not match themselves.
var words = []struct{ pattern, reason string }{
	{`proxy[.]golang[.]org|sum[.]golang[.]org|registry[.]npmjs|deb[.]debian[.]org|security[.]debian[.]org`, "where packages come from is the user's to say"},
	{`/wor[k]/(main|shared|steering|[.]library)|/far[m]/|far[m]-(bench|studio)|/tmp/b[g]/`, "it is a path of one machine"},
	{`\b(DEVELOPER[S]|MECHANISM[S]|LIBRARIE[S]|STYL[E]|CASE[S]|AUDI[T]|MC[P])[.]md\b`, "the page is not part of the repository"},
	{`\b(DESIG[N]|MECHANISM[S]|LIBRARIE[S]|STYL[E]|CASE[S]|AUDI[T])(, | |[.]md )(section )?[0-9]`, "the page is not part of the repository"},
	{`(?i)\bissues? +#?[0-9]+\b|\b(fix(es|ed)?|closed?s?|see) #[0-9]+\b`, "say what it is about; outside trackers are named by address"},
	{`(?i)\bwork(ing)? sessio[n]s?\b`, "how the repository came about is not its subject"},
}

// forbidden returns the words in text that no file may say.
func forbidden(name, text string) (problems []string) {
	for _, w := range words {
		for _, found := range regexp.MustCompile(w.pattern).FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:found[0]], "\n")
			problems = append(problems, fmt.Sprintf("%s:%d: says %q: %s", name, line, text[found[0]:found[1]], w.reason))
		}
	}
	return problems
}

// tooLong returns a problem if the Go file name is longer than maxLines.
func tooLong(name, text string) (problems []string) {
	if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || generatedCode.MatchString(text) {
		return nil
	}
	if n := strings.Count(text, "\n"); n > maxLines {
		return []string{fmt.Sprintf("%s has %d lines, at most %d: a type may be missing", name, n, maxLines)}
	}
	return nil
}

// misplaced returns the names, paths from the top, that topLevel does not allow.
func misplaced(names []string) (problems []string) {
	var seen []string
	for _, name := range names {
		top, _, _ := strings.Cut(name, "/")
		if strings.HasPrefix(top, ".") || slices.Contains(topLevel, top) || slices.Contains(seen, top) {
			continue
		}
		seen = append(seen, top)
		problems = append(problems, fmt.Sprintf("%s at the top of the repository; only %v may stand there", top, topLevel))
	}
	return problems
}

// modFile returns what is wrong with a go.mod, given as go mod edit -json
// prints it.
func modFile(printed []byte) (problems []string) {
	var mod struct {
		Module           struct{ Path string }
		Go, Toolchain    string
		Replace, Exclude []json.RawMessage
	}
	if err := json.Unmarshal(printed, &mod); err != nil {
		return []string{fmt.Sprintf("read go.mod: %v", err)}
	}
	if mod.Module.Path != module {
		problems = append(problems, fmt.Sprintf("go.mod: module is %s, want %s", mod.Module.Path, module))
	}
	if mod.Go != goVersion {
		problems = append(problems, fmt.Sprintf("go.mod: go is %q, want %q", mod.Go, goVersion))
	}
	if mod.Toolchain != "" {
		problems = append(problems, "go.mod: names a toolchain; the line go says enough")
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		problems = append(problems, "go.mod: replace and exclude hold for us alone, not for who imports us")
	}
	return problems
}

// files returns the paths, from the top, of all files of the repository: those
// that git has and those that it would take. Without git, all but what building
// leaves.
func files(t *testing.T) []string {
	t.Helper()
	top := build.Root(t)
	if _, err := os.Stat(filepath.Join(top, ".git")); err == nil {
		// The tree may belong to another user than the one who tests it.
		cmd := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		cmd.Dir = top
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git ls-files: %v", err)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	var names []string
	err := fs.WalkDir(os.DirFS(top), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (name == "bin" || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestTree(t *testing.T) {
	names := files(t)
	report(t, misplaced(names))
	top := build.Root(t)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(top, name))
		if err != nil || !info.Mode().IsRegular() {
			continue // removed and not committed yet, or a link
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		report(t, forbidden(name, string(text)))
		report(t, tooLong(name, string(text)))
	}
}

func TestModFile(t *testing.T) {
	report(t, modFile(modEdit(t, filepath.Join(build.Root(t), "go.mod"))))
}

// modEdit returns what go mod edit -json prints for the file name.
func modEdit(t *testing.T, name string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", name).Output()
	if err != nil {
		t.Fatalf("go mod edit -json %s: %v", name, err)
	}
	return out
}

func TestModFileRuleFails(t *testing.T) {
	const good = "module cloche.dev/cloche\n\ngo 1.26.8\n"
	for _, test := range []struct{ name, text, want string }{
		{"good", good, ""},
		{"replace", good + "replace example.com/a => ../a\n", "replace"},
		{"exclude", good + "exclude example.com/a v1.0.0\n", "exclude"},
		{"toolchain", good + "toolchain go1.27.0\n", "toolchain"},
		{"older go", "module cloche.dev/cloche\n\ngo 1.26.4\n", "go is"},
		{"no go", "module cloche.dev/cloche\n", "go is"},
		{"other module", "module example.com/cloche\n\ngo 1.26.8\n", "module is"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "go.mod")
			if err := os.WriteFile(name, []byte(test.text), 0o644); err != nil {
				t.Fatal(err)
			}
			expect(t, modFile(modEdit(t, name)), test.want)
		})
	}
}

func TestTreeRulesFail(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"module proxy", "GOPROXY=https://proxy" + ".golang.org", "user's to say"},
		{"npm", "https://registry" + ".npmjs.org/x", "user's to say"},
		{"Debian", "http://deb" + ".debian.org/debian", "user's to say"},
		{"machine", "see /work" + "/main/go.mod", "one machine"},
		{"page", "as STYLE" + ".md says", "not part of the repository"},
		{"section of a page", "DESIGN" + " section 8", "not part of the repository"},
		{"number of a section", "MECHANISMS" + " 8 has it", "not part of the repository"},
		{"number of an issue", "for issue" + " 12", "what it is about"},
		{"fix", "fixes" + " #12", "what it is about"},
		{"session", "in this work" + " session", "came about"},
		{"paths of the sandbox", "/work/workspace, /work/attachments", ""},
		{"outside tracker", "https://github.com/opencontainers/runc/issues/3028", ""},
		{"session of a kernel", "session=true; 12 issues were open", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, forbidden("a.go", test.text), test.want)
		})
	}
	for _, test := range []struct{ name, file, text, want string }{
		{"at the limit", "a.go", strings.Repeat("\n", maxLines), ""},
		{"one past it", "a.go", strings.Repeat("\n", maxLines+1), "401 lines"},
		{"test", "a_test.go", strings.Repeat("\n", maxLines+1), ""},
		{"not Go", "a.py", strings.Repeat("\n", maxLines+1), ""},
		{"generated", "a.go", "// Code generated by x. DO NOT EDIT.\n" + strings.Repeat("\n", maxLines+1), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, tooLong(test.file, test.text), test.want)
		})
	}
	for _, test := range []struct {
		name  string
		files []string
		want  string
	}{
		{"allowed", []string{"go.mod", "cmd/cloche/main.go", ".ci/test", ".gitignore"}, ""},
		{"file", []string{"Makefile", "go.mod"}, "Makefile at the top"},
		{"folder, once", []string{"docs/a.md", "docs/b.md"}, "docs at the top"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, misplaced(test.files), test.want)
		})
	}
}

// TestReadme checks that each generated part of README.md, and of each other
// page, is closed as it is opened; what stands in it is another test's.
func TestReadme(t *testing.T) {
	opening := regexp.MustCompile(`(?m)^<!-- /?([a-z][a-z0-9-]*) -->$`)
	for _, name := range files(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(build.Root(t), name))
		if err != nil {
			continue // removed and not committed yet
		}
		for _, marker := range opening.FindAllStringSubmatch(string(text), -1) {
			if _, err := Section(string(text), marker[1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
