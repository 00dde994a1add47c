package repotest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/runtime/shim"
)

// libcontainer returns what is wrong with the libcontainer that a go.mod, as go
// mod edit -json prints it, asks for: it must have the fixes of all escapes that
// were published.
func libcontainer(printed []byte) (problems []string) {
	const path = "github.com/opencontainers/runc"
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(printed, &mod); err != nil {
		return []string{fmt.Sprintf("read go.mod: %v", err)}
	}
	for _, r := range mod.Require {
		if r.Path != path {
			continue
		}
		patched, err := shim.Patched(r.Version)
		switch {
		case err != nil:
			return []string{err.Error()}
		case !patched:
			return []string{fmt.Sprintf("%s %s lacks the fix of a published escape", path, r.Version)}
		}
		return nil
	}
	return []string{"go.mod does not ask for " + path}
}

func TestLibcontainer(t *testing.T) {
	report(t, libcontainer(modEdit(t, filepath.Join(build.Root(t), "go.mod"))))
}

func TestLibcontainerRuleFails(t *testing.T) {
	for _, test := range []struct{ name, printed, want string }{
		{"good", `{"Require":[{"Path":"example.com/a","Version":"v0.1.0"},{"Path":"github.com/opencontainers/runc","Version":"v1.5.3"}]}`, ""},
		{"old", `{"Require":[{"Path":"github.com/opencontainers/runc","Version":"v1.4.2"}]}`, "lacks the fix"},
		{"no version", `{"Require":[{"Path":"github.com/opencontainers/runc","Version":"main"}]}`, "no version"},
		{"another", `{"Require":[{"Path":"github.com/opencontainers/runc-x","Version":"v1.5.3"}]}`, "does not ask"},
		{"not JSON", `{`, "read go.mod"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, libcontainer([]byte(test.printed)), test.want)
		})
	}
}
