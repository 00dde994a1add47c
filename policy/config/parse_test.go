package config

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseEmpty(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "\ufeff", "[sandbox]\n", "[sandbox.host]"} {
		got, err := Parse("c.toml", []byte(text))
		if err != nil {
			t.Errorf("Parse(%q) = %v, want nil", text, err)
		}
		if diff := cmp.Diff(Default(), got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", text, diff)
		}
	}
}

// full sets every key to something else than its default.
const full = `
[server]
stop_grace = "0s"
[log]
level = 'debug'
format = "json"
[calls]
timeout = "1m30s"
max_timeout = "24h"
max_code = 1000 # bytes
output = "1 MB"
waiting = 0
[sandbox]
image = "host"
memory = "2GiB"
cpus = 2
pids = 0x100
work = "1 GB"
tmp = "1000 kB"
shm = "64 MiB"
idle = "24h"
preload = ["numpy", "_a.b1"]
host.hide = ["share/doc", 'lib/secret*']
[pool]
warm = 64
max = 3
memory = "10 GB"
processors = 2.5
`

func wantFull() Config {
	return Config{
		Server: Server{StopGrace: 0},
		Log:    Log{Level: "debug", Format: "json"},
		Calls: Calls{
			Timeout: Duration(90 * time.Second), MaxTimeout: Duration(24 * time.Hour),
			MaxCode: 1000, Output: 1000000, Waiting: 0,
		},
		Sandbox: Sandbox{
			Image: "host", Memory: 2 << 30, CPUs: 2, PIDs: 256,
			Work: 1000000000, Tmp: 1000000, Shm: 64 << 20, Idle: Duration(24 * time.Hour),
			Preload: Preload{Modules: []string{"numpy", "_a.b1"}},
			Host:    Host{Hide: []string{"share/doc", "lib/secret*"}},
		},
		Pool: Pool{Warm: 64, Max: 3, Memory: 10 * GB, Processors: 2.5},
	}
}

func TestParseFull(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"plain", full},
		{"CRLF", strings.ReplaceAll(full, "\n", "\r\n")},
		{"byte order mark", "\ufeff" + full},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("c.toml", []byte(tt.text))
			if err != nil {
				t.Fatalf("Parse = %v, want nil", err)
			}
			if diff := cmp.Diff(wantFull(), got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseLeavesDefault(t *testing.T) {
	want := Default()
	want.Sandbox.Preload = Preload{}
	got, err := Parse("c.toml", []byte("sandbox = {preload = []}"))
	if err != nil {
		t.Fatalf("Parse = %v, want nil", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

const (
	timeAllowed = `a time from "100ms" to "24h", such as "30s", "15m" or "1h30m"`
	memAllowed  = `a size from "32 MB" to "16 TB", in B, kB, MB, GB, TB or KiB, MiB, GiB, TiB, without a fraction`
	hideAllowed = `a list of at most 256 names or patterns relative to /usr, in which * ? [a-z] match within one name`
	nameAllowed = `a name or pattern relative to /usr, such as "share/doc" or "lib/secret*", without "..", backslash or control characters`
	inCalls     = "timeout, max_timeout, max_code, output, waiting"
	inSandbox   = "image, memory, cpus, pids, work, tmp, shm, idle, preload, host"
	inFile      = "server, log, calls, sandbox, pool"
)

func TestParseProblems(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		// Not TOML.
		{"syntax", "[pool]\nwarm = \n", "2:8: not TOML: expected value but found '\\n' instead"},
		{"syntax CRLF", "[pool]\r\nwarm =, 1\r\n", "2:7: not TOML: expected value but found ',' instead"},
		{"syntax after letters", "[log] # über\n level = \"ü\" x", "2:13: not TOML: expected a top-level item to end with a newline, comment, or EOF, but got 'x' instead"},
		{"twice", "[pool]\nwarm = 1\nwarm = 2\n", "3:1: not TOML: Key 'pool.warm' has already been defined"},
		{"table twice", "[pool]\n[log]\n[pool]\n", "3:2: not TOML: Key 'pool' has already been defined"},
		{"UTF-16", "\xff\xfe[\x00p\x00", "1:1: not TOML: not UTF-8 text"},
		{"Latin-1", "[log]\n# \ufffd \xfc\n", "2:5: not TOML: not UTF-8 text"},
		{"two byte order marks", "\ufeff\ufeffx = 1", "1:1: not TOML: not UTF-8 text"},
		{"zero byte", "[log]\x00", "1:6: not TOML: files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8"},
		{"twice, unseen by the library", "sandbox.host.hide = []\nsandbox = 5\n", "2:11: sandbox is set here, but was there before, in line 1"},

		// Names.
		{"unknown key", "[sandbox]\nmemroy = \"1 GB\"\n", `2:1: unknown key "memroy" in [sandbox]; did you mean "memory"? allowed here: ` + inSandbox},
		{"unknown key, dotted", "sandbox . \"memroy\" = 1", `1:11: unknown key "memroy" in [sandbox]; did you mean "memory"? allowed here: ` + inSandbox},
		{"unknown key, inline", "calls = { waiting = 1, timout = 5 }", `1:24: unknown key "timout" in [calls]; did you mean "timeout"? allowed here: ` + inCalls},
		{"capital", "[calls]\n\tTimeout = \"1s\"\n", `2:2: unknown key "Timeout" in [calls]; did you mean "timeout"? allowed here: ` + inCalls},
		{"unlike anything", "[calls]\nxyz = 1\n", `2:1: unknown key "xyz" in [calls]; allowed here: ` + inCalls},
		{"of another table", "[calls]\nmemory = 1\n", `2:1: unknown key "memory" in [calls]; it belongs in [sandbox]; allowed here: ` + inCalls},
		{"outside", "memory = 1\n", `1:1: unknown key "memory" outside of any table; it belongs in [sandbox]; allowed here: ` + inFile},
		{"unknown table", "[sandbx.host]\nhide = 5\n", `1:2: unknown table [sandbx]; did you mean "sandbox"? allowed here: ` + inFile},
		{"unknown table below", "[sandbox.hots]\nhide = 5\n", `1:10: unknown table [sandbox.hots]; did you mean "host"? allowed here: ` + inSandbox},
		{"unknown tables", "[[rules]]\nx = 1\n[[rules]]\nx = 1\n", `1:3: unknown table [rules]; allowed here: ` + inFile},
		{"quoted dot", "[\"sandbox.host\"]\nhide = 5\n", `1:2: unknown table ["sandbox.host"]; allowed here: ` + inFile},
		{"empty name", "\"\" = 1", `1:1: unknown key "" outside of any table; allowed here: ` + inFile},
		{"long name", "\"" + strings.Repeat("é", 100) + "\" = 1", `1:1: unknown key "` + strings.Repeat("é", 60) + `…" outside of any table; allowed here: ` + inFile},
		{"key in a table of none", "[server]\nstop_grace.x = 1", `2:1: server.stop_grace = a table: must be a time from "0s" to "10m", such as "30s", "15m" or "1h30m"`},

		// Types.
		{"no table", "pool = 5", "1:8: pool = 5: must be a table; write [pool] on a line and its keys below"},
		{"no table below", "[sandbox]\nhost = \"x\"", `2:8: sandbox.host = "x": must be a table; write [sandbox.host] on a line and its keys below`},
		{"tables", "[[pool]]\nwarm = 1", "1:3: pool = a list of tables: must be a table; write [pool] on a line and its keys below"},
		{"table for a value", "[sandbox.memory]\nx = 1", "1:10: sandbox.memory = a table: must be " + memAllowed},
		{"date", "calls.timeout = 2020-01-01", "1:17: calls.timeout = a date or time: must be " + timeAllowed},
		{"number for a time", "calls.timeout = 60", "1:17: calls.timeout = 60: must be " + timeAllowed},
		{"no unit for a time", "calls.timeout = \"60\"", `1:17: calls.timeout = "60": must be ` + timeAllowed},
		{"fraction for a size", "sandbox.memory = 1.5e9", "1:18: sandbox.memory = 1500000000.0: must be " + memAllowed},
		{"fraction in a size", "sandbox.memory = '''1.5 GB'''", `1:18: sandbox.memory = "1.5 GB": must be ` + memAllowed},
		{"unit of a size", "sandbox.memory = \"\"\"\n1 gb\"\"\"", `1:18: sandbox.memory = "1 gb": must be ` + memAllowed},
		{"overflow", "sandbox.memory = \"9999999999 TB\"", `1:18: sandbox.memory = "9999999999 TB": must be ` + memAllowed},
		{"minus", "sandbox.memory = \"-1 GB\"", `1:18: sandbox.memory = "-1 GB": must be ` + memAllowed},
		{"fraction", "pool.warm = 1.0", "1:13: pool.warm = 1.0: must be a whole number from 0 to 64"},
		{"neither auto nor a size", `pool.memory = "some"`, `1:15: pool.memory = "some": must be "auto" or ` + memAllowed},
		{"neither auto nor a number", `pool.processors = "2"`, `1:19: pool.processors = "2": must be "auto" or a number from 0.01 to 4096`},
		{
			"a call larger than all", "[pool]\nmemory = \"900 MB\"",
			`2:10: "1 GB" for sandbox.memory is above pool.memory, which is "900 MB", so that no call could run; lower the one or raise the other`,
		},
		{"truth", "pool.warm = true", "1:13: pool.warm = true: must be a whole number from 0 to 64"},
		{"no number", "sandbox.cpus = nan", "1:16: sandbox.cpus = NaN: must be a number from 0.01 to 1024"},
		{"infinite", "sandbox.cpus = inf", "1:16: sandbox.cpus = +Inf: must be a number from 0.01 to 1024"},
		{"text for a number", "sandbox.cpus = \"2\"", `1:16: sandbox.cpus = "2": must be a number from 0.01 to 1024`},
		{"choice", "log.level = \"Info\"", `1:13: log.level = "Info": must be one of "debug", "info", "warn", "error"`},
		{"choice of two", "log.format = 1", `1:14: log.format = 1: must be "text" or "json"`},
		{"choice of one", "sandbox.image = \"debian:12\"", `1:17: sandbox.image = "debian:12": must be "host"`},
		{"long value", "log.format = \"" + strings.Repeat("\\n", 61) + "\"", `1:14: log.format = "` + strings.Repeat(`\u000A`, 60) + `…": must be "text" or "json"`},

		// Lists.
		{"no list", "sandbox.host.hide = \"share\"", `1:21: sandbox.host.hide = "share": must be ` + hideAllowed},
		{"tables for a list", "[[sandbox.host.hide]]", `1:16: sandbox.host.hide = a list of tables: must be ` + hideAllowed},
		{"elements", "[sandbox.host]\nhide = [\"a\", # first\n  \"/etc\",\n  'ok',\n  7, ]", `3:3: sandbox.host.hide[1] = "/etc": must be ` + nameAllowed + `
c.toml:5:3: sandbox.host.hide[3] = 7: must be ` + nameAllowed},
		{"module", "sandbox.preload = [\"os; import x\"]", `1:20: sandbox.preload[0] = "os; import x": must be the name of a Python module, such as "matplotlib.pyplot"`},
		{"preload", "sandbox.preload = \"numpy\"", `1:19: sandbox.preload = "numpy": must be "auto" or a list of at most 64 names of Python modules`},

		// Between keys.
		{"time-outs", "[calls]\ntimeout = \"2h\"", `2:11: "2h" for calls.timeout is above calls.max_timeout, which is "1h"; lower the one or raise the other`},
		{"time-outs, the other", "[calls]\nmax_timeout = \"30s\"", `2:15: "1m" for calls.timeout is above calls.max_timeout, which is "30s"; lower the one or raise the other`},
		{"sum", "[sandbox]\ntmp = \"680 MB\"", `2:7: sandbox.work, tmp and shm are "1 GB" together, which must be less than sandbox.memory, "1 GB"; raise memory or lower them`},
		{"sum, at memory", "[sandbox]\ntmp = \"512 MB\"\nmemory = \"512 MB\"", `3:10: sandbox.work, tmp and shm are "832 MB" together, which must be less than sandbox.memory, "512 MB"; raise memory or lower them`},
		{"sum, not told twice", "[sandbox]\ntmp = \"1 GB\"\nmemory = \"x\"", `3:10: sandbox.memory = "x": must be ` + memAllowed},

		// All of them, in the order of the file.
		{"all", "[pool]\nwarm = 65\n[sandbox]\nimage = \"x\"\nmem = 1\n[log]\nformat = 2", `2:8: pool.warm = 65: must be a whole number from 0 to 64
c.toml:4:9: sandbox.image = "x": must be "host"
c.toml:5:1: unknown key "mem" in [sandbox]; allowed here: ` + inSandbox + `
c.toml:7:10: log.format = 2: must be "text" or "json"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("c.toml", []byte(tt.text))
			if err == nil {
				t.Fatalf("Parse(%q) = nil, want an error", tt.text)
			}
			if diff := cmp.Diff("c.toml:"+tt.want, err.Error()); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

// TestParseLimits has each range at its ends and one past them.
func TestParseLimits(t *testing.T) {
	for _, tt := range []struct {
		key     string
		in, out []string
	}{
		{"server.stop_grace", []string{`"0s"`, `"10m"`}, []string{`"-1ns"`, `"10m1ns"`}},
		{"calls.timeout", []string{`"100ms"`, `"1h"`}, []string{`"99ms"`, `"1h1ns"`}},
		{"calls.max_timeout", []string{`"1m"`, `"24h"`}, []string{`"59s"`, `"24h1ns"`}},
		{"calls.max_code", []string{"1000", `"32 MB"`}, []string{"999", "32000001"}},
		{"calls.output", []string{"1000", "1000000"}, []string{"999", "1000001"}},
		{"calls.waiting", []string{"0", "1000"}, []string{"-1", "1001"}},
		{"sandbox.memory", []string{"832000001", `"16 TB"`}, []string{"832000000", "16000000000001", "0", "-1"}},
		{"sandbox.cpus", []string{"0.01", "1024"}, []string{"0.00999", "1024.0001", "0", "-1"}},
		{"sandbox.pids", []string{"16", "4194304"}, []string{"15", "4194305"}},
		{"sandbox.work", []string{`"1 MB"`, "423999999"}, []string{"999999", "424000000"}},
		{"sandbox.tmp", []string{`"1 MB"`, "679999999"}, []string{"999999", "680000000"}},
		{"sandbox.shm", []string{`"1 MB"`, "231999999"}, []string{"999999", "232000000"}},
		{"sandbox.idle", []string{`"1s"`, `"24h"`}, []string{`"999ms"`, `"24h1ns"`}},
		{"pool.warm", []string{"0", "64"}, []string{"-1", "65"}},
		{"pool.max", []string{"1", "4096"}, []string{"0", "4097"}},
		{"pool.memory", []string{`"1 GB"`, `"16 TB"`, `"auto"`}, []string{"999999999", "16000000000001", "31999999", "0", `""`, `"AUTO"`}},
		{"pool.processors", []string{"0.01", "4096", `"auto"`}, []string{"0.00999", "4096.01", "0", "-1", `"4"`}},
		{"sandbox.host.hide", []string{"[" + strings.Repeat(`"a",`, 256) + "]"}, []string{"[" + strings.Repeat(`"a",`, 257) + "]"}},
		{"sandbox.preload", []string{"[" + strings.Repeat(`"a",`, 64) + "]"}, []string{"[" + strings.Repeat(`"a",`, 65) + "]"}},
	} {
		for _, v := range tt.in {
			if _, err := Parse("c.toml", []byte(tt.key+" = "+v)); err != nil {
				t.Errorf("Parse(%s = %.40s) = %v, want nil", tt.key, v, err)
			}
		}
		for _, v := range tt.out {
			_, err := Parse("c.toml", []byte(tt.key+" = "+v))
			if e, ok := errors.AsType[*Error](err); !ok || len(e.Problems) != 1 {
				t.Errorf("Parse(%s = %.40s) = %v, want one problem", tt.key, v, err)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, s := range []string{"a", "share/doc", "lib/secret*", "lib/*/x", "[a-z]?", "..a", "ä", "a b"} {
		if !isPattern(s) {
			t.Errorf("isPattern(%q) = false, want true", s)
		}
	}
	for _, s := range []string{"", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/../b", "a/..", "[", "a[", "[a", "[]", "a/[b-]", `a\*`, `\.\.`, "a\x00", "a\n", "\xff"} {
		if isPattern(s) {
			t.Errorf("isPattern(%q) = true, want false", s)
		}
	}
	for _, s := range []string{"a", "_", "A1", "matplotlib.pyplot", strings.Repeat("a", 200)} {
		if !isModule(s) {
			t.Errorf("isModule(%q) = false, want true", s)
		}
	}
	for _, s := range []string{"", ".", "a.", ".a", "a..b", "1a", "a.1", "a b", "a-b", "ä", "a\n", "a;b", strings.Repeat("a", 201)} {
		if isModule(s) {
			t.Errorf("isModule(%q) = true, want false", s)
		}
	}
}

func TestErrorIsBounded(t *testing.T) {
	for n, want := range map[int]int{maxShown: maxShown, maxShown + 1: maxShown + 1, maxProblems: maxShown + 1, maxProblems + 1: maxShown + 1} {
		var text strings.Builder
		for i := range n {
			text.WriteString("x" + strconv.Itoa(i) + " = 1\n")
		}
		_, err := Parse("c.toml", []byte(text.String()))
		if e, ok := errors.AsType[*Error](err); !ok || len(e.Problems) != min(n, maxProblems) {
			t.Fatalf("Parse of %d mistakes: not as many problems", n)
		}
		if got := 1 + strings.Count(err.Error(), "\n"); got != want {
			t.Errorf("Error() of %d problems has %d lines, want %d", n, got, want)
		}
	}
}

// TestTableOfKeys holds the table to what its readers rely on.
func TestTableOfKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, tb := range tables {
		for _, k := range tb.keys {
			full := join(tb.name, k.name)
			if seen[full] || k.doc == "" || k.kind.allowed == "" || strings.Contains(k.name, ".") {
				t.Errorf("key %s is there twice or is not described", full)
			}
			seen[full] = true
		}
	}
	for _, r := range rules {
		for _, full := range r.keys {
			if !seen[full] {
				t.Errorf("a rule is about %s, which is no key", full)
			}
		}
	}
}
