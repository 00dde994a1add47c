package audit

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/runtime/need"
)

func TestParse(t *testing.T) {
	const head = "# id: C2\n# title: memory\n# attempts: mmap, a file\n"
	got, err := parse("C2_mmap", head+"# seconds: 0.5\n# ends: exit 0 or out of memory\n# shows: a: b\n# output: stdout 5\n# output: stderr 6\n# load\n# meanwhile: print(1)\n\n# code: no\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Probe{
		Name: "C2_mmap", ID: "C2", Title: "memory", Attempts: []string{"mmap", "a file"}, Limit: time.Second / 2,
		Ends: []string{"exit 0", "out of memory"}, Shows: "a: b", Output: map[string]int64{"stdout": 5, "stderr": 6},
		Load: true, Meanwhile: "print(1)", Code: got.Code,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parse (-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ name, file, text, want string }{
		{"none", "A1", "x = 1\n", "no id"},
		{"no attempts", "A1", "# id: A1\n# title: x\n", "no title or no attempts"},
		{"no title", "A1", "# id: A1\n# attempts: x\n", "no title or no attempts"},
		{"id of another", "A11", "# id: A1\n# title: x\n# attempts: x\n", "its id is A1"},
		{"strange id", "a", "# id: a\n# title: x\n# attempts: x\n", "no id"},
		{"strange word", "C2", head + "# speed: 1\n", "speed"},
		{"strange line", "C2", head + "#load\n", "strange line"},
		{"twice", "C2", head + "# title: y\n", "twice"},
		{"attempt twice", "C2", "# id: C2\n# title: x\n# attempts: a, a\n", "cannot be told apart"},
		{"attempt with a colon", "C2", "# id: C2\n# title: x\n# attempts: a:b\n", "cannot be told apart"},
		{"strange end", "C2", head + "# ends: well\n", "no end"},
		{"strange time", "C2", head + "# seconds: soon\n", "seconds"},
		{"strange size", "C2", head + "# output: stdout\n", "output"},
		{"flag with a value", "C2", head + "# load: yes\n", "strange value"},
		{"word without a value", "C2", head + "# shows\n", "strange value"},
		{"load on the host", "C2", head + "# load\n# outside\n", "not for the host"},
		{"meanwhile of no load", "C2", head + "# meanwhile: print(1)\n", "for a load"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parse(tt.file, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("parse = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestProbes: there is one for each row, and each is Python.
func TestProbes(t *testing.T) {
	all, err := Probes()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, p := range all {
		rows[p.ID]++
	}
	for kind, last := range map[string]int{"A": 24, "C": 7, "E": 2} {
		for n := 1; n <= last; n++ {
			if id := kind + strconv.Itoa(n); rows[id] == 0 {
				t.Errorf("there is no probe %s", id)
			}
		}
	}
	if rows["E5"] == 0 {
		t.Error("there is no probe E5")
	}
	for i := 1; i < len(all); i++ {
		if compare(all[i-1].ID, all[i].ID) > 0 {
			t.Errorf("%s comes before %s", all[i-1].Name, all[i].Name)
		}
	}
	need.Python(t)
	code := map[string]string{}
	for _, p := range all {
		if code[p.Name], err = p.Source(Limits{MemoryBytes: 1, PIDs: 1, CPUs: 0.5}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(code)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-I", "-c",
		"import json, sys\nfor name, code in json.load(sys.stdin).items(): compile(code, name, 'exec')")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("compile the probes: %v\n%s", err, out)
	}
}

// TestNumbers: a probe that makes the wrong call would find every wall up.
func TestNumbers(t *testing.T) {
	prelude, err := files.ReadFile("probes/" + preludeFile)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"([a-z0-9_]+)": \((\d+|None), (\d+|None)\)`).FindAllStringSubmatch(string(prelude), -1)
	if len(found) < 30 {
		t.Fatalf("found %d numbers in the prelude", len(found))
	}
	for _, m := range found {
		for i, table := range []*arch.Info{arch.X86_64, arch.AARCH64} {
			want := "None"
			if n, ok := table.SyscallNames[m[1]]; ok {
				want = strconv.Itoa(n)
			}
			if m[2+i] != want {
				t.Errorf("%s on %s is %s, want %s", m[1], table.Name, m[2+i], want)
			}
		}
	}
}
