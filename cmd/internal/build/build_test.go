package build

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProgramsStandTogether(t *testing.T) {
	cloche := Programs(t)
	for _, name := range []string{"cloche", "cloche-shim"} {
		info, err := os.Stat(filepath.Join(filepath.Dir(cloche), name))
		if err != nil {
			t.Errorf("beside %s: %v", cloche, err)
		} else if got := info.Mode().Perm(); got != 0o755 {
			t.Errorf("mode of %s = %v, want 0755", name, got)
		}
	}
}
