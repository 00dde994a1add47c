package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloche.dev/cloche/runtime/need"
)

// works are programs that people expect to run, in testdata/work, and what they
// need of the machine beside Python. Each prints that it went well.
var works = []struct {
	name              string
	programs, modules []string
	openBLAS          bool
}{
	{name: "shell", programs: []string{"bash", "tar", "gzip"}},
	{name: "processes"},
	{name: "asyncio"},
	{name: "sqlite"},
	{name: "git", programs: []string{"git"}},
	{name: "node", programs: []string{"node"}},
	{name: "blas", openBLAS: true},
	{name: "pandas", modules: []string{"pandas", "matplotlib"}},
}

// TestWork runs real programs within the walls, which are not to be felt, with
// the limits that everybody has.
func TestWork(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Python(t)
		need.Namespaces(t)
		s := serve(t, "", "")
		for _, w := range works {
			t.Run(w.name, func(t *testing.T) {
				need.Programs(t, w.programs...)
				need.Modules(t, w.modules...)
				if w.openBLAS {
					need.OpenBLAS(t)
				}
				code, err := os.ReadFile(filepath.Join("testdata", "work", w.name+".py"))
				if err != nil {
					t.Fatal(err)
				}
				if a := s.on(t).run(string(code)); a.Stdout != "well\n" || a.Stderr != "" {
					t.Errorf("it did not go well:\n%s", a.text)
				}
			})
		}
	})
}
