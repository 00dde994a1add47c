package watch

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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

// TestInSockets: how many sockets are too many when the host is short.
func TestInSockets(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		name string
		n    int
		info string
		want bool
	}{
		{"as many as programs use", manySockets - 1, "", false},
		{"one more", manySockets, "", true},
		{"few, and nothing on its way", 1, "pos:\t0\nscm_fds: 0\n", false},
		{"few, and a descriptor on its way", 1, "pos:\t0\nscm_fds: 1\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newFakeProc(t)
			p.put("7/status", status("S", 1, 1, 0))
			for i := range tt.n {
				p.holds("7", socket)
				if tt.info != "" {
					p.put(fmt.Sprintf("7/fdinfo/%d", i), tt.info)
				}
			}
			h, err := p.held()
			if err != nil {
				t.Fatal(err)
			}
			if got := h.inSockets(p.inside); got != tt.want {
				t.Errorf("%d sockets with %q: %v, want %v", tt.n, tt.info, got, tt.want)
			}
		})
	}
}
