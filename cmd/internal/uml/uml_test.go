package uml

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/cmd/internal/build"
)

// TestLimits runs the real programs where control groups are of version 2.
func TestLimits(t *testing.T) {
	Need(t)
	script, err := os.ReadFile("testdata/limits.sh")
	if err != nil {
		t.Fatal(err)
	}
	programs := filepath.Dir(build.Programs(t))
	out := Run(t, "PROGRAMS="+programs+"\n"+string(script), "1500M", 8*time.Minute)
	blocks := blocksOf(out)
	for _, user := range []string{"root", "user"} {
		for _, want := range []struct{ block, text string }{
			{"doctor", "limits           memory, processors and processes, by control groups (version 2)"},
			{"doctor", "ok       control groups   version 2; memory, cpu and pids can be used"},
			{"doctor", "ok       namespaces       user namespaces can be made"},
			{"memory", "out of memory (limit 300 MB, peak 300 MB)"},
			{"memory", "alive"},
			{"forks", "Resource temporarily unavailable"},
			{"forks", "alive"},
			{"spin", "alive"},
			{"crash", "crashed 6\ncrashed 6\n"},
			{"crash", "alive"},
		} {
			if !strings.Contains(blocks[user+" "+want.block], want.text) {
				t.Errorf("%s, %s: no %q in:\n%s", user, want.block, want.text, blocks[user+" "+want.block])
			}
		}
		if n := number(t, blocks[user+" forks"], `forks (\d+)`); n < 50 || n > 63 {
			t.Errorf("%s made %v processes where 64 are allowed with the two that were there, want 50 to 63", user, n)
		}
		if share := number(t, blocks[user+" spin"], `share ([0-9.]+)`); share < 0.05 || share > 0.65 {
			t.Errorf("three spinning processes of %s had %v of a processor, want at most 0.5 (and a measure of it)", user, share)
		}
		// Two crashes in a sandbox and one outside, whose limit is 0.
		if n := number(t, blocks[user+" cores"], `(\d+)`); n != 1 {
			t.Errorf("the host's handler had %v core dumps of %s, want 1: that of the crash outside", n, user)
		}
		if left := strings.TrimSpace(blocks[user+" left"]); left != "" {
			t.Errorf("control groups left by %s: %s", user, left)
		}
	}
	for _, want := range []string{
		"limited  control groups   version 2; none of memory, cpu and pids can be used by this user: no group is delegated to it",
		"mend it with: sudo modprobe overlay", // it is a module there, which nobody has loaded
		"ok       sandbox ",
		"limited  limits           no control group may be used for all of them",
	} {
		if !strings.Contains(blocks["stranger doctor"], want) {
			t.Errorf("to whom no group is delegated, doctor does not say %q:\n%s", want, blocks["stranger doctor"])
		}
	}
	if t.Failed() {
		t.Logf("the kernel said:\n%s", out)
	}
}

// blocksOf parts the output at the lines "== NAME".
func blocksOf(out string) map[string]string {
	blocks := map[string]string{}
	name := ""
	for line := range strings.Lines(out) {
		if n, ok := strings.CutPrefix(line, "== "); ok {
			name = strings.TrimSpace(n)
			continue
		}
		if strings.HasPrefix(line, endMark) {
			break
		}
		blocks[name] += line
	}
	return blocks
}

func number(t *testing.T, text, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Errorf("no %s in:\n%s", pattern, text)
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Error(err)
	}
	return n
}
