package repotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloche.dev/cloche/cmd/internal/build"
)

const module = "cloche.dev/cloche"

// mayImport lists, for each top-level folder, the folders it may import besides
// itself. The order is that of the layers, lowest first.
var mayImport = map[string][]string{
	"policy":       nil,
	"runtime":      {"policy"},
	"integrations": {"policy", "runtime"},
	"tools":        {"policy", "runtime", "integrations"},
	"cmd":          {"policy", "runtime", "integrations", "tools", "examples"}, // examples: the data of the demonstration
	"examples":     nil,
}

// onlyIn lists what few packages of ours may import: the path of the import,
// with all that is below it, and those packages.
var onlyIn = map[string][]string{
	"github.com/opencontainers/runc": {"runtime/container"},
	"github.com/google/go-github":    {"integrations/github"},
	"github.com/mark3labs/mcp-go":    {"tools/mcp", "tools/mcpclient"},
	"github.com/BurntSushi/toml":     {"policy/config"},
}

// notLinked lists what the server must not link, with the reason.
var notLinked = map[string]string{
	"github.com/opencontainers/runc": "libcontainer executes its own program anew in each container, so that program is the small one",
	module + "/runtime/container":    "it is libcontainer; the server speaks to the shim",
	module + "/cmd/internal":         "it is for tests",
	"testing":                        "it is for tests",
}

// A goPackage is what these tests ask go list about a package.
type goPackage struct {
	Dir, ImportPath, Name             string
	GoFiles, CgoFiles, IgnoredGoFiles []string
	Imports                           []string
	Error                             *struct{ Err string }
	Standard                          bool
}

// list returns what go list says of patterns. env is added to the environment.
func list(t *testing.T, env []string, args ...string) []goPackage {
	t.Helper()
	const fields = "Dir,ImportPath,Name,GoFiles,CgoFiles,IgnoredGoFiles,Imports,Error,Standard"
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=" + fields}, args...)...)
	cmd.Dir = build.Root(t)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.String())
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatalf("read the answer of go list %v: %v", args, err)
		}
		pkgs = append(pkgs, p)
	}
}

// within reports whether path is prefix or below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// layers returns the imports that go against mayImport, and the packages that
// stand in no layer.
func layers(pkgs []goPackage) (problems []string) {
	for _, p := range pkgs {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		folder, rest, _ := strings.Cut(name, "/")
		allowed, ok := mayImport[folder]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s is in none of the layers", p.ImportPath))
			continue
		case rest == "" && folder != "policy" && folder != "tools":
			problems = append(problems, fmt.Sprintf("%s itself holds a package; only folders in it may", folder))
		}
		for _, imported := range p.Imports {
			if !within(imported, module) {
				continue
			}
			to, _, _ := strings.Cut(strings.TrimPrefix(imported, module+"/"), "/")
			if to != folder && !slices.Contains(allowed, to) {
				problems = append(problems, fmt.Sprintf("%s imports %s; %s may import %v", name, imported, folder, allowed))
			}
		}
	}
	return problems
}

// importers returns the imports that go against onlyIn.
func importers(pkgs []goPackage) (problems []string) {
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			for prefix, owners := range onlyIn {
				if within(imported, prefix) && !slices.Contains(owners, name) {
					problems = append(problems, fmt.Sprintf("%s imports %s, which is for %v alone", name, imported, owners))
				}
			}
		}
	}
	return problems
}

// linked returns the packages of deps, what the server links, that are in
// notLinked or cannot be built.
func linked(deps []goPackage) (problems []string) {
	for _, p := range deps {
		if p.Error != nil {
			problems = append(problems, fmt.Sprintf("%s: %s", p.ImportPath, strings.TrimSpace(p.Error.Err)))
		}
		for prefix, reason := range notLinked {
			if within(p.ImportPath, prefix) {
				problems = append(problems, fmt.Sprintf("the server links %s: %s", p.ImportPath, reason))
			}
		}
	}
	return problems
}

func TestLayers(t *testing.T) {
	pkgs := list(t, nil, "./...")
	report(t, layers(pkgs))
	report(t, importers(pkgs))
}

func TestServerLinks(t *testing.T) {
	noCgo := []string{"CGO_ENABLED=0"}
	report(t, linked(list(t, noCgo, "-deps", "./cmd/cloche")))

	out := filepath.Join(t.TempDir(), "cloche")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", out, "./cmd/cloche")
	cmd.Dir = build.Root(t)
	cmd.Env = append(os.Environ(), noCgo...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("build the server without cgo: %v\n%s", err, text)
	}
}

func TestImportRulesFail(t *testing.T) {
	of := func(path string, imports ...string) []goPackage {
		return []goPackage{{ImportPath: module + "/" + path, Imports: imports}}
	}
	broken := of("cmd/cloche")
	broken[0].Error = &struct{ Err string }{"build constraints exclude all Go files"}
	for _, test := range []struct {
		name string
		rule func([]goPackage) []string
		pkgs []goPackage
		want string // part of the only problem; "" for none
	}{
		{"upward", layers, of("policy", module+"/runtime/tree"), "policy imports"},
		{"from runtime to tools", layers, of("runtime/pool", module+"/tools"), "runtime/pool imports"},
		{"to cmd", layers, of("tools/mcp", module+"/cmd/internal/build"), "tools/mcp imports"},
		{"from examples", layers, of("examples/data", module+"/policy"), "examples/data imports"},
		{"new folder", layers, of("pkg/util"), "none of the layers"},
		{"top of the module", layers, []goPackage{{ImportPath: module}}, "none of the layers"},
		{"package runtime", layers, of("runtime"), "runtime itself"},
		{"downward", layers, of("tools/code", module+"/runtime/conversation", module+"/policy/fault", "os"), ""},
		{"same layer", layers, of("tools/code", module+"/tools"), ""},
		{"data in cmd", layers, of("cmd/cloche", module+"/examples/data"), ""},
		{"libcontainer in the server", importers, of("cmd/cloche", "github.com/opencontainers/runc/libcontainer"), "for [runtime/container] alone"},
		{"below its owner", importers, of("runtime/container/x", "github.com/opencontainers/runc/libcontainer"), "for [runtime/container] alone"},
		{"toml in a tool", importers, of("tools/code", "github.com/BurntSushi/toml"), "for [policy/config] alone"},
		{"major version", importers, of("tools/repo", "github.com/google/go-github/v66/github"), "for [integrations/github] alone"},
		{"mcp-go in cmd", importers, of("cmd/cloche", "github.com/mark3labs/mcp-go/server"), "alone"},
		{"second owner", importers, of("tools/mcpclient", "github.com/mark3labs/mcp-go/client"), ""},
		{"longer name", importers, of("runtime/shim", "github.com/opencontainers/runcible"), ""},
		{"runc below the server", linked, []goPackage{{ImportPath: "github.com/opencontainers/runc/libcontainer/configs"}}, "the server links"},
		{"container below the server", linked, of("runtime/container"), "the server links"},
		{"does not build", linked, broken, "build constraints"},
		{"clean server", linked, of("runtime/shim"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, test.rule(test.pkgs), test.want)
		})
	}
}

// report makes each problem a failure of t.
func report(t *testing.T, problems []string) {
	t.Helper()
	slices.Sort(problems)
	for _, p := range problems {
		t.Error(p)
	}
}

// expect checks that problems are none, if want is "", or a single one that
// contains want.
func expect(t *testing.T, problems []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(problems) > 0:
		t.Errorf("problems = %q, want none", problems)
	case want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)):
		t.Errorf("problems = %q, want one that contains %q", problems, want)
	}
}
