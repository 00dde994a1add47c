package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/cmd/internal/repotest"
	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/need"
)

func TestMain(m *testing.M) {
	Init()
	goleak.VerifyTestMain(m)
}

// absent is the text of a file that is not there.
const absent = "\x00"

// hybrid is the mountinfo of a host with control groups of version 1, and an
// empty version 2 beside them.
const hybrid = `22 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw
23 22 0:21 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
24 22 0:22 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
25 22 0:23 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
26 22 0:24 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`

// works is what comes of a try of which nothing fails.
func works() trial {
	t := trial{stepProc: 0, stepTmpfs: 0, stepOverlay: 0, stepData: 0, stepSeccomp: 0}
	t.passed(kindsOfShim)
	t.passed(kindsOfSandbox)
	return t
}

// madeUp returns a host on which all is well, with files, by their names.
func madeUp(t *testing.T, uid int, files map[string]string) *Host {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"usr/bin/python3": "", "proc/sys/kernel/seccomp/actions_avail": "kill_process kill_thread trap errno user_notif trace log allow\n",
		"proc/self/mountinfo": hybrid, "proc/self/uid_map": "         0          0 4294967295\n",
		"proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t4\t1\ncpu\t1\t4\t1\npids\t8\t4\t1\n",
		"usr/share/fonts/opentype/NotoSansCJK-Bold.ttc": "", "var/lib/dpkg/info/python3.list": "/.\n/usr\n/usr/bin\n/usr/bin/python3\n/usr/share\n/usr/share/fonts\n/usr/share/fonts/opentype\n",
	}
	for _, k := range kinds {
		all["proc/self/ns/"+k.name] = ""
	}
	maps.Copy(all, files)
	for name, text := range all {
		if text == absent {
			continue
		}
		write(t, filepath.Join(root, name), text)
	}
	return &Host{
		o: Options{
			Shim:     func() (string, error) { return filepath.Join(root, "usr/bin/python3"), nil },
			Sweep:    func(string) error { return nil },
			Readable: error.Error,
		},
		root: root, uid: uid, release: "6.1.0-18-amd64", build: "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1",
		env: func(string) string { return "" },
		try: func(context.Context, string) (trial, error) { return works(), nil },
		group: func(string) (cgroup.Limits, string, error) {
			return cgroup.Limits{Memory: true, CPU: true, PIDs: true}, "/cloche/i1", nil
		},
		python: func(context.Context) (string, error) { return "3.11.2", nil },
		statfs: func(_ string, st *unix.Statfs_t) error {
			*st = unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC, Bsize: 4096, Blocks: 1e7, Bavail: 5e6, Files: 1e6, Ffree: 9e5}
			return nil
		},
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// setenv gives h an environment.
func (h *Host) setenv(vars map[string]string) { h.env = func(name string) string { return vars[name] } }

// says checks what was found.
func says(t *testing.T, f Finding, state State, detail, remedy string) {
	t.Helper()
	if f.State != state || !strings.Contains(f.Detail, detail) || f.Remedy != remedy {
		t.Errorf("found %+v\nwant %s, with %q, mended by %q", f, state, detail, remedy)
	}
	mendable(t, f)
}

// mendable checks that a finding says how it is mended, or why it is not.
func mendable(t *testing.T, f Finding) {
	t.Helper()
	if problem := unmendable(f); problem != "" {
		t.Errorf("%+v %s", f, problem)
	}
}

// unmendable returns what a finding says too little or too much of, "" for
// nothing.
func unmendable(f Finding) string {
	switch {
	case f.Name == "" || f.Detail == "":
		return "says nothing"
	case f.State == OK && (f.Remedy != "" || f.Or != "" || f.Why != ""):
		return "mends what is well"
	case f.State != OK && f.Remedy == "" && f.Why == "":
		return "has neither a remedy nor a reason why there is none"
	case f.Remedy != "" && f.Why != "":
		return "has a remedy and a reason why there is none"
	case f.Or != "" && f.Remedy == "":
		return "has a second remedy without a first one"
	}
	return ""
}

func TestUnmendable(t *testing.T) {
	for _, test := range []struct {
		f    Finding
		want string
	}{
		{good("a", "b"), ""},
		{limited("a", "b", "c"), ""},
		{beyond("a", Missing, "b", "c"), ""},
		{Finding{Name: "a", State: Missing, Detail: "b", Remedy: "c", Or: "d"}, ""},
		{limited("a", "b", ""), "neither"},
		{beyond("a", Limited, "b", ""), "neither"},
		{good("a", ""), "nothing"},
		{Finding{Name: "a", State: OK, Detail: "b", Remedy: "c"}, "well"},
		{Finding{Name: "a", State: Missing, Detail: "b", Remedy: "c", Why: "d"}, "has a remedy and"},
		{Finding{Name: "a", State: Missing, Detail: "b", Why: "d", Or: "c"}, "second"},
	} {
		if got := unmendable(test.f); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.f, got, test.want)
		}
	}
}

// looked are the names of what Look finds, in its order.
var looked = []string{
	"kernel", "namespaces", "ids", "seccomp", "overlay", "control groups", "cloche-shim", "runc", "python", "fonts",
	"configuration", "data directory", "disk", "host image",
}

// TestReadme holds that README.md lists what is checked.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(build.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := repotest.Section(string(text), "doctor")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(table, -1) {
		got = append(got, row[1])
	}
	want := slices.Clone(looked)
	for _, f := range madeUp(t, 0, nil).Ran(nil, Run{}) {
		want = append(want, f.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what README.md lists (-want +got):\n%s", diff)
	}
}

// TestLook looks at the real host, as root and as an ordinary user.
func TestLook(t *testing.T) {
	need.BothUsers(t, func(t *testing.T) {
		need.Namespaces(t)
		need.Python(t)
		data := filepath.Join(t.TempDir(), "data")
		program := need.Shim(t)
		h := This(Options{
			DataDir: data, Shim: func() (string, error) { return program, nil },
			Sweep: func(string) error { return nil }, Readable: error.Error,
		})
		findings := h.Look(t.Context())
		var names []string
		for _, f := range findings {
			mendable(t, f)
			if f.State == Missing {
				t.Errorf("found %+v", f)
			}
			names = append(names, f.Name)
		}
		if diff := cmp.Diff(looked, names); diff != "" {
			t.Errorf("what is looked at (-want +got):\n%s", diff)
		}
		if !Works(findings) || Works(append(findings, NotTried())) {
			t.Error("what works does not, or the other way round")
		}
		left, err := filepath.Glob(filepath.Join(data, "*"))
		if err != nil || !cmp.Equal(left, []string{filepath.Join(data, "run")}) {
			t.Errorf("in the data directory is left %v, %v", left, err)
		}
		if left, _ := filepath.Glob(filepath.Join(data, "run", "*")); len(left) > 0 {
			t.Errorf("of names is left %v", left)
		}
	})
}

// TestLookWithoutPlace: what needs the data directory says so, all else is told.
func TestLookWithoutPlace(t *testing.T) {
	h := madeUp(t, 0, map[string]string{"data": "a file"})
	h.uid = os.Getuid()
	h.o.DataDir = h.path("data")
	h.o.Config = h.path("nowhere.toml")
	h.try = func(_ context.Context, data string) (trial, error) {
		if data != "" {
			t.Errorf("overlays are tried in %q", data)
		}
		return nil, errors.New("broken")
	}
	findings := h.Look(t.Context())
	state := map[string]State{}
	for _, f := range findings {
		mendable(t, f)
		state[f.Name] = f.State
	}
	for name, want := range map[string]State{
		"namespaces": Missing, "data directory": Missing, "configuration": Missing, "control groups": Limited, "overlay": Limited, "seccomp": OK, "python": OK,
	} {
		if state[name] != want {
			t.Errorf("%s is %q, want %q", name, state[name], want)
		}
	}
	if _, there := state["disk"]; there {
		t.Error("the disk of no data directory is told of")
	}
}

func TestJSON(t *testing.T) {
	f := Finding{Name: "n", State: Limited, Detail: "d", Remedy: "r", Or: "o", Why: "w"}
	got, err := json.Marshal([]Finding{f, good("n", "d")})
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"name":"n","state":"limited","detail":"d","remedy":"r","or":"o","no_remedy":"w"},{"name":"n","state":"ok","detail":"d"}]`
	if string(got) != want {
		t.Errorf("findings are %s, want %s", got, want)
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"/tmp/a-b_1.toml": "/tmp/a-b_1.toml", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "~": "'~'", "a;b": "'a;b'",
	} {
		if got := Quoted(word); got != want {
			t.Errorf("Quoted(%q) = %s, want %s", word, got, want)
		}
	}
}

// noConfig makes sure that the machine's own configuration is not looked at.
func noConfig(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if path, err := config.Find(""); err != nil || path != "" {
		need.Unmet(t, fmt.Sprintf("this machine has a configuration, %s (%v)", path, err))
	}
}
