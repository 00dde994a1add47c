package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExampleFile(t *testing.T) {
	const file = "../../config.example.toml"
	if os.Getenv("CLOCHE_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(Example()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; make it with CLOCHE_UPDATE=1", err)
	}
	if diff := cmp.Diff(Example(), string(got)); diff != "" {
		t.Errorf("config.example.toml is not what Example makes; run with CLOCHE_UPDATE=1 (-want +got):\n%s", diff)
	}
}

func TestExampleIsDefault(t *testing.T) {
	got, err := Parse("config.example.toml", []byte(Example()))
	if err != nil {
		t.Fatalf("Parse(Example()) = %v, want nil", err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Errorf("Parse(Example()) (-default +got):\n%s", diff)
	}
	for i, line := range strings.Split(Example(), "\n") {
		if len(line) > 90 {
			t.Errorf("line %d of Example() has %d characters, want at most 90", i+1, len(line))
		}
	}
}

func TestTOML(t *testing.T) {
	const want = `[server]
stop_grace = "0s"

[log]
level = "debug"
format = "json"

[calls]
timeout = "1m30s"
max_timeout = "24h"
max_code = "1 kB"
output = "1 MB"
waiting = 0

[sandbox]
image = "host"
memory = "2 GiB"
cpus = 2.0
pids = 256
work = "1 GB"
tmp = "1 MB"
shm = "64 MiB"
idle = "24h"
preload = ["numpy", "_a.b1"]

[sandbox.host]
hide = ["share/doc", "lib/secret*"]

[pool]
warm = 64
max = 3
memory = "10 GB"
processors = 2.5
`
	got := wantFull().TOML()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("TOML() (-want +got):\n%s", diff)
	}
	back, err := Parse("c.toml", []byte(got))
	if err != nil {
		t.Fatalf("Parse(TOML()) = %v, want nil", err)
	}
	if diff := cmp.Diff(wantFull(), back); diff != "" {
		t.Errorf("Parse(TOML()) (-want +got):\n%s", diff)
	}
}

// TestDigest changes each key in turn and asks which digests tell.
func TestDigest(t *testing.T) {
	plain := Default()
	for _, tt := range []struct {
		text    string
		sandbox bool
	}{
		{`server.stop_grace = "1s"`, false},
		{`log.level = "warn"`, false},
		{`log.format = "json"`, false},
		{`calls.timeout = "1s"`, false},
		{`calls.max_timeout = "2h"`, false},
		{`calls.max_code = "1 MB"`, false},
		{`calls.output = "1 MB"`, false},
		{`calls.waiting = 1`, false},
		{`sandbox.memory = "2 GB"`, true},
		{`sandbox.cpus = 2`, true},
		{`sandbox.pids = 100`, true},
		{`sandbox.work = "1 MB"`, true},
		{`sandbox.tmp = "1 MB"`, true},
		{`sandbox.shm = "1 MB"`, true},
		{`sandbox.idle = "1m"`, false},
		{`sandbox.preload = []`, true},
		{`sandbox.host.hide = ["a"]`, true},
		{`pool.warm = 2`, false},
		{`pool.max = 2`, false},
		{`pool.memory = "2 GB"`, false},
		{`pool.processors = 2`, false},
	} {
		c, err := Parse("c.toml", []byte(tt.text))
		if err != nil {
			t.Fatalf("Parse(%q) = %v, want nil", tt.text, err)
		}
		if c.Digest() == plain.Digest() {
			t.Errorf("%s: Digest() is that of the default", tt.text)
		}
		if got := c.SandboxDigest() != plain.SandboxDigest(); got != tt.sandbox {
			t.Errorf("%s: SandboxDigest() differs: %v, want %v", tt.text, got, tt.sandbox)
		}
	}
	if again := Default(); again.Digest() != plain.Digest() || len(plain.Digest()) != 12 {
		t.Errorf("Digest() = %q, then %q, want 12 digits, twice the same", plain.Digest(), again.Digest())
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a b": `"a b"`, `a"b\c`: `"a\"b\\c"`, "a\n\x00\x7f\u0085é": `"a\u000A\u0000\u007F\u0085é"`,
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

// FuzzParse wants an answer for any text: a Config that survives being printed,
// or problems that have a place.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", full, Example(), "\ufeff[pool]\r\nwarm = 1\r\n", "a.b = 1\na = 2", "[[sandbox]]", "sandbox = {host = {hide = ['[a]']}}",
		"calls.timeout = \"\"\"1m\"\"\"", "\"\\u0061\" = 1", "x = 07:32:00", "preload = [", "sandbox.cpus = 1e-2",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("c.toml", text)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("Parse(%q) = %v, want an *Error", text, err)
			}
			for _, p := range e.Problems {
				if p.Line < 1 || p.Column < 1 || p.Text == "" {
					t.Errorf("Parse(%q) has problem %+v, want a place and a text", text, p)
				}
			}
			return
		}
		back, err := Parse("c.toml", []byte(c.TOML()))
		if err != nil {
			t.Fatalf("Parse(TOML()) = %v, want nil; TOML() is %s", err, c.TOML())
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Errorf("Parse(TOML()) (-want +got):\n%s", diff)
		}
	})
}
