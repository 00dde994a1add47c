package headroom

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const host = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"

// files writes the files of a host into a folder, by their names.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		full := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(full), 0o700)
		if err == nil {
			err = os.WriteFile(full, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	const k = 1 << 10
	kB := func(n int) string { return fmt.Sprintln(n * k) }
	for _, tt := range []struct {
		name string
		own  string
		have map[string]string
		want Memory
	}{
		{"nothing", "", nil, Memory{}},
		{"no groups", "", map[string]string{"meminfo": host}, Memory{1000 * k, 600 * k}},
		{
			"group without a limit", "0::/a/b\n",
			map[string]string{"meminfo": host, "cgroup/a/b/memory.max": "max\n", "cgroup/a/b/memory.current": kB(1)},
			Memory{1000 * k, 600 * k},
		},
		{
			"version 2", "0::/a/b\n",
			map[string]string{
				"meminfo": host, "cgroup/a/b/memory.max": kB(300), "cgroup/a/b/memory.current": kB(200),
				"cgroup/a/b/memory.stat": "anon 5\ninactive_file 20480\nactive_file 10240\n",
			},
			Memory{300 * k, 130 * k},
		},
		{
			"the group above is narrower", "0::/a/b\n",
			map[string]string{
				"meminfo": host, "cgroup/a/b/memory.max": kB(300), "cgroup/a/b/memory.current": kB(100),
				"cgroup/a/memory.max": kB(400), "cgroup/a/memory.current": kB(390),
			},
			Memory{300 * k, 10 * k},
		},
		{
			"the host has less left", "0::/\n",
			map[string]string{"meminfo": host, "cgroup/memory.max": kB(900), "cgroup/memory.current": kB(100)},
			Memory{900 * k, 600 * k},
		},
		{
			"version 1", "4:memory:/x\n3:cpu:/y\n",
			map[string]string{
				"meminfo": host, "cgroup/memory/x/memory.limit_in_bytes": kB(500), "cgroup/memory/x/memory.usage_in_bytes": kB(450),
				"cgroup/memory/x/memory.stat":         "inactive_file 1\ntotal_inactive_file 51200\nactive_file 0\ntotal_active_file 0\n",
				"cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "cgroup/memory/memory.usage_in_bytes": kB(900),
			},
			Memory{500 * k, 100 * k},
		},
		{
			"a container's name that is not seen in it", "4:memory:/docker/0123\n",
			map[string]string{
				"meminfo": host, "cgroup/memory/memory.limit_in_bytes": kB(200), "cgroup/memory/memory.usage_in_bytes": kB(250),
			},
			Memory{200 * k, 0},
		},
		{
			"strange", "x\n0::\n::\n0::/../../etc\n",
			map[string]string{"meminfo": strings.Replace(host, "600", "six", 1), "cgroup/memory.max": "-5\n"},
			Memory{1000 * k, 0},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := files(t, tt.have)
			r := at(filepath.Join(dir, "meminfo"), filepath.Join(dir, "cgroup"), tt.own)
			for range 2 {
				if got := r.Read(); got != tt.want {
					t.Errorf("Read() = %+v, want %+v", got, tt.want)
				}
			}
		})
	}
}

// TestChanges: what is left is that of the moment.
func TestChanges(t *testing.T) {
	dir := files(t, map[string]string{"meminfo": host})
	name := filepath.Join(dir, "meminfo")
	r := at(name, dir, "")
	if got := r.Read().Available; got != 600<<10 {
		t.Errorf("at first %d bytes are left", got)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(host, "600", "50", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.Read().Available; got != 50<<10 {
		t.Errorf("then %d bytes are left", got)
	}
}

// TestThisHost has some memory, and some of it is left.
func TestThisHost(t *testing.T) {
	m := New().Read()
	if m.Total < 64<<20 || m.Available <= 0 || m.Available > m.Total {
		t.Errorf("Read() = %+v", m)
	}
}

func BenchmarkRead(b *testing.B) {
	r := New()
	for b.Loop() {
		r.Read()
	}
}
