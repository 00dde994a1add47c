package repotest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const document = "# Title\n\n<!-- tools -->\n\nold\n\n<!-- /tools -->\n\nEnd.\n"

func TestReplaceSection(t *testing.T) {
	got, err := ReplaceSection(document, "tools", "| a |\n| b |\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "# Title\n\n<!-- tools -->\n\n| a |\n| b |\n\n<!-- /tools -->\n\nEnd.\n"
	if got != want {
		t.Errorf("ReplaceSection = %q, want %q", got, want)
	}
	again, err := ReplaceSection(got, "tools", "| a |\n| b |\n")
	if err != nil || again != got {
		t.Errorf("ReplaceSection a second time = %q, %v, want no change", again, err)
	}
}

func TestSectionRefuses(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"no marker", "# Title\n"},
		{"not closed", "<!-- tools -->\nold\n"},
		{"opened twice", "<!-- tools -->\n<!-- tools -->\nold\n<!-- /tools -->\n"},
		{"closed first", "<!-- /tools -->\nold\n<!-- tools -->\n"},
		{"another name", "<!-- limits -->\nold\n<!-- /limits -->\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := Section(test.text, "tools"); err == nil {
				t.Errorf("Section = %q, want an error", got)
			}
			if got, err := ReplaceSection(test.text, "tools", "new"); err == nil {
				t.Errorf("ReplaceSection = %q, want an error", got)
			}
		})
	}
}

// recorder is a testing.TB that notes a failure instead of failing.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Fatalf(format string, _ ...any) {
	r.failed = format
	panic(r)
}

// catch runs Generated for README.md and returns how it failed, "" if it did
// not.
func catch(t *testing.T, name, want string) (failed string) {
	r := &recorder{TB: t}
	defer func() {
		if v := recover(); v != nil && v != any(r) {
			panic(v)
		}
		failed = r.failed
	}()
	Generated(r, "README.md", name, want)
	return ""
}

func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"go.mod": "module m\n", "README.md": document} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(updateVariable, "")
	if got := catch(t, "tools", "old"); got != "" {
		t.Errorf("a part that is up to date failed: %s", got)
	}
	if got := catch(t, "tools", "new"); !strings.Contains(got, "out of date") {
		t.Errorf("a part that is out of date: %q, want a failure that says so", got)
	}
	if got := catch(t, "limits", "new"); got == "" {
		t.Error("a part that is not there passed")
	}
	t.Setenv(updateVariable, "1")
	if got := catch(t, "tools", "new"); got != "" {
		t.Errorf("writing a part anew failed: %s", got)
	}
	t.Setenv(updateVariable, "")
	if got := catch(t, "tools", "new"); got != "" {
		t.Errorf("the part that was written failed: %s", got)
	}
}
