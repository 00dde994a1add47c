package watch

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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
		all  int // as the network namespace counts them; 0: it does not tell
		want bool
	}{
		{"as many as programs use", manySockets - 1, "", 0, false},
		{"one more", manySockets, "", 0, true},
		{"few, and nothing on its way", 1, "pos:\t0\nscm_fds: 0\n", 0, false},
		{"few, and a descriptor on its way", 1, "pos:\t0\nscm_fds: 1\n", 0, true},
		{"few, and some that nobody accepts", 1, "", manySockets - 1, false},
		{"few, and more that nobody accepts", 1, "", manySockets, true},
		{"few, which many processes have", manySockets, "", 1, false},
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
			if tt.all > 0 {
				p.put("1/net/protocols", fmt.Sprintf("protocol  size sockets  memory press\nUNIX-STREAM 1152 %6d -1 NI 0 yes\nTCP 2304 1 253 no 192 yes\nUDP 1344 0 135 NI 0 yes\n", tt.all-1))
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

// TestUnacceptedSockets: the kernel tells of those that no descriptor tells of.
// Others of this host open and close some meanwhile.
func TestUnacceptedSockets(t *testing.T) {
	const many = 300
	p := newFakeProc(t)
	if err := os.Symlink(fmt.Sprintf("/proc/%d/net", os.Getpid()), filepath.Join(p.dir, "1/net")); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before := p.sockets(-1)
	for range many {
		c, err := new(net.Dialer).DialContext(t.Context(), "unix", socket) //nolint:forbidigo // the test's own
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.sockets(-1); before < 0 || got < before+many {
		t.Errorf("there were %d sockets and are %d, after %d connections that nobody accepted", before, got, many)
	}
}

// TestNotesOfKernel: the kernel notes locks as they are looked for.
func TestNotesOfKernel(t *testing.T) {
	const each = 500 // the kernel walks those of a file for each more
	p := newFakeProc(t)
	if err := os.Symlink(fmt.Sprintf("/proc/%d", os.Getpid()), filepath.Join(p.dir, "7")); err != nil {
		t.Fatal(err)
	}
	looks := func() bool {
		h, err := p.held()
		if err != nil {
			t.Fatal(err)
		}
		return h.inNotes(p.inside)
	}
	if looks() {
		t.Error("before: very many locks")
	}
	for range manyNotes / each {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for n := range int64(each) {
			lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * (each - n), Len: 1}
			if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !looks() {
		t.Errorf("%d locks were not noted", manyNotes)
	}
}

// TestReports: descriptors of /proc keep what was read.
func TestReports(t *testing.T) {
	for n, want := range map[int]bool{manyReports - 1: false, manyReports: true} {
		p := newFakeProc(t)
		p.memory, p.device = 1, p.memory
		p.put("7/status", status("S", 1, 1, 0))
		for range n {
			p.holds("7", filepath.Join(p.dir, "7/status"))
			p.holds("7", "/dev/null")
		}
		h, err := p.held()
		if err != nil {
			t.Fatal(err)
		}
		if got := h.inNotes(p.inside); got != want {
			t.Errorf("%d descriptors of /proc: %v, want %v", n, got, want)
		}
	}
}

// TestSecret: whose descriptors may not be seen may hold anything; who is gone
// holds nothing.
func TestSecret(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"gone", unix.ENOENT, false},
		{"ended", unix.ESRCH, false},
		{"too many files are open", unix.ENFILE, false},
		{"not to be read", unix.EACCES, true},
		{"not to be traced", &os.PathError{Op: "open", Path: "7/fd", Err: unix.EPERM}, true},
	} {
		if got := secret(tt.err); got != tt.want {
			t.Errorf("%s: secret(%v) = %v, want %v", tt.name, tt.err, got, tt.want)
		}
	}
}

func TestHides(t *testing.T) {
	socket := func(p *fakeProc, info string) {
		name := filepath.Join(t.TempDir(), "s")
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		p.holds("7", name)
		p.put("7/fdinfo/0", "pos:\t0\nflags:\t02\n"+info)
	}
	notes := func(p *fakeProc, locks, watches int) {
		p.put("7/fdinfo/3", "pos:\t0\n"+strings.Repeat("lock:\t1: POSIX\n", locks))
		p.put("8/status", status("S", 1, 1, 1))
		p.put("8/fdinfo/4", "pos:\t0\n"+strings.Repeat("tfd: 7 events: 1\n", watches/2)+strings.Repeat("inotify wd:1\n", watches-watches/2))
	}
	maps := func(file string) string {
		lines := slices.Collect(strings.Lines(smaps(file, 1)))
		return lines[0] + lines[3]
	}
	for _, tt := range []struct {
		name string
		make func(p *fakeProc)
		want bool
	}{
		{"nothing", func(*fakeProc) {}, false},
		{"a file that is mapped, with a descriptor", func(p *fakeProc) {
			file := p.file(1)
			p.put("7/maps", maps(file))
			p.holds("7", file)
		}, false},
		{"a file that is mapped alone", func(p *fakeProc) { p.put("7/maps", maps(p.file(1))) }, true},
		{"a segment", func(p *fakeProc) {
			p.put("7/maps", strings.ReplaceAll(maps(p.file(1)), "/memfd:", "/SYSV"))
		}, false},
		{"many mappings", func(p *fakeProc) {
			for _, pid := range []string{"7", "8"} {
				p.put(pid+"/status", status("S", 1, 1, 1))
				p.put(pid+"/maps", strings.Repeat("55-7f rw-p 00000000 00:00 0\n", manyMappings/2))
			}
		}, true},
		{"one less", func(p *fakeProc) {
			p.put("7/maps", strings.Repeat("55-7f rw-p 00000000 00:00 0\n", manyMappings-1))
		}, false},
		{"locks and watches", func(p *fakeProc) { notes(p, manyNotes/2, manyNotes/2-1) }, false},
		{"one more", func(p *fakeProc) { notes(p, manyNotes/2, manyNotes/2) }, true},
		{"a socket", func(p *fakeProc) { socket(p, "scm_fds: 0\n") }, false},
		{"descriptors on their way", func(p *fakeProc) { socket(p, "scm_fds: 2\n") }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newFakeProc(t)
			p.put("7/status", status("S", 1, 1, 1))
			tt.make(p)
			h, err := p.held()
			if err != nil {
				t.Fatal(err)
			}
			if got := h.inSockets(p.inside) || h.inMappings(p.inside) || h.inNotes(p.inside); got != tt.want {
				t.Errorf("holds what is not counted = %v, want %v", got, tt.want)
			}
		})
	}
}
