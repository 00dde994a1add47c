package watch

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// guarded starts a Guard of a host whose memory left, in megabytes, and open
// files, of a million, can be set.
func guarded(t *testing.T) (g *Guard, set func(left, files int)) {
	t.Helper()
	meminfo, fileNr := filepath.Join(t.TempDir(), "meminfo"), filepath.Join(t.TempDir(), "file-nr")
	set = func(left, files int) {
		for name, text := range map[string]string{
			meminfo: fmt.Sprintf("MemTotal: 64000000 kB\nMemFree: 1 kB\nMemAvailable: %d kB\n", (left+1024)<<10),
			fileNr:  fmt.Sprintf("%d\t0\t1000000\n", files),
		} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(60_000, 1000)
	h, err := OpenHost(meminfo, fileNr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = h.meminfo.Close(), h.fileNr.Close() })
	return NewGuard(h, slog.New(slog.DiscardHandler)), set
}

// TestGuard: it looks into sandboxes when the host is short of something, and not
// into one that was removed.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, set := guarded(t)
		defer g.Close()
		var looks [2]atomic.Int32
		var members [2]*Member
		for i := range members {
			members[i] = g.add(i == 1, func() (*inside, error) {
				looks[i].Add(1)
				return nil, errors.New("nothing to see")
			})
		}
		check := func(when string, d time.Duration, first, second int) {
			t.Helper()
			pass(d)
			if a, b := int(looks[0].Swap(0)), int(looks[1].Swap(0)); a != first || b != second {
				t.Errorf("%s: looked %d and %d times, want %d and %d", when, a, b, first, second)
			}
		}
		check("enough is left", time.Hour, 0, 0)
		set(60_000, 500_000)
		check("half of the files are open", time.Hour, 0, 0)
		set(60_000, 500_001)
		check("more than half of the files are open", guardLater, 1, 1)
		set(1, 1000)
		check("little is left", 10*time.Second, 0, 0)
		set(0, 1000)
		check("nothing is left", guardSoon, 1, 1)
		check("still nothing", 10*guardSoon, 10, 10)
		members[0].Remove()
		check("the first is gone", 10*guardSoon, 0, 10)
		set(60_000, 1000)
		check("enough again", time.Hour, 0, 0)
		members[1].Remove()
		set(0, 1000)
		check("both are gone", time.Hour, 0, 0)
	})
}

// TestEndsNoMoreThanNeeded: once the host has enough, nobody else is ended.
func TestEndsNoMoreThanNeeded(t *testing.T) {
	g, set := guarded(t)
	g.Close() // it looks when told to, and waits for nobody's end
	set(0, 1000)
	var members []*Member
	ended := func() (sum uint64) {
		for _, m := range members {
			sum += m.Kills()
		}
		return sum
	}
	for range 5 {
		p := newFakeProc(t)
		p.put("7/status", status("S", 1, 1, 0))
		p.put("1/net/protocols", fmt.Sprintf("protocol size sockets\nUNIX 1 %d\n", manySockets))
		members = append(members, g.add(false, func() (*inside, error) {
			if ended() == 1 { // by the end of the second
				set(60_000, 1000)
			}
			in := &inside{}
			var err error
			in.proc, err = openFile(p.dir, unix.O_RDONLY|unix.O_DIRECTORY)
			return in, err
		}))
	}
	if next := g.check(); ended() != 2 || next != guardLater {
		t.Errorf("of five that hold much %d were ended, want 2; the next look is in %v, want %v", ended(), next, guardLater)
	}
}

// TestShortOfFiles: what is mapped is open, which matters to one whose memory a
// control group counts only where files are short.
func TestShortOfFiles(t *testing.T) {
	stopped := make(chan struct{})
	close(stopped) // nobody is waited for
	for _, tt := range []struct {
		name           string
		watched, files bool
		mappings       int
		want           uint64
	}{
		{"memory is short", false, false, manyMappings, 0},
		{"files are short", false, true, manyMappings, 1},
		{"files are short, and few are mapped", false, true, manyMappings - 1, 0},
		{"memory is short, and nobody else counts it", true, false, manyMappings, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newFakeProc(t)
			p.put("7/status", status("S", 1, 1, 0))
			p.put("7/maps", strings.Repeat("55-7f r--p 00000000 103:2f 3 /x\n", tt.mappings))
			g := &Guard{stop: stopped, members: map[*Member]bool{}}
			m := g.add(tt.watched, func() (*inside, error) {
				in := &inside{memory: 1}
				var err error
				in.proc, err = openFile(p.dir, unix.O_RDONLY|unix.O_DIRECTORY)
				return in, err
			})
			if err := m.end(tt.files); err != nil {
				t.Fatal(err)
			}
			if got := m.Kills(); got != tt.want {
				t.Errorf("ended %d times, want %d", got, tt.want)
			}
		})
	}
}

// TestOpenHost: a host that does not tell is an error, and one that no longer
// does is short.
func TestOpenHost(t *testing.T) {
	const memory, files = "MemTotal: 64000000 kB\nMemFree: 1 kB\nMemAvailable: 60000000 kB\n", "5\t0\t100\n"
	for _, tt := range []struct{ name, memory, files string }{
		{"no memory", "MemTotal: 64000000 kB\nMemFree: 1 kB\n", files},
		{"empty memory", "", files},
		{"no files", memory, ""},
		{"other files", memory, "5 0"},
	} {
		if _, err := OpenHost(written(t, tt.memory), written(t, tt.files)); err == nil {
			t.Errorf("%s: OpenHost has no error", tt.name)
		}
	}
	meminfo, fileNr := written(t, memory), written(t, files)
	h, err := OpenHost(meminfo, fileNr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = h.meminfo.Close(), h.fileNr.Close() })
	if left, many := h.left(), h.manyFiles(); left == 0 || many {
		t.Errorf("of a host that has enough are left %d, many files %v", left, many)
	}
	for _, name := range []string{meminfo, fileNr} {
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	if left, many := h.left(), h.manyFiles(); left != 0 || !many {
		t.Errorf("of a host that tells no longer are left %d, many files %v, want 0, true", left, many)
	}
}

// written is a file of text.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
