package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fakeProc is a directory that looks like /proc.
type fakeProc struct {
	t   *testing.T
	dir string
	*inside
}

func newFakeProc(t *testing.T) *fakeProc {
	t.Helper()
	p := &fakeProc{t, t.TempDir(), &inside{}}
	var err error
	if p.proc, err = openFile(p.dir, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	var st unix.Stat_t
	if err := unix.Stat(p.dir, &st); err != nil {
		t.Fatal(err)
	}
	p.memory = st.Dev // files in there are memory files
	p.put("1/status", status("S", 0, 10, 0))
	return p
}

// put writes a file below /proc.
func (p *fakeProc) put(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// holds lets a process hold a descriptor of a file.
func (p *fakeProc) holds(pid, file string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, pid, "fd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.Symlink(file, filepath.Join(dir, fmt.Sprint(len(entries)))); err != nil {
		p.t.Fatal(err)
	}
}

// file makes a memory file of so many megabytes.
func (p *fakeProc) file(megabytes int) string {
	p.t.Helper()
	f, err := os.CreateTemp(p.t.TempDir(), "")
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(megabytes)<<20); err != nil {
		p.t.Fatal(err)
	}
	return f.Name()
}

// status is that of a process which holds so many megabytes, named by somebody
// who would like to seem small.
func status(state string, parent, private, shared int) string {
	return fmt.Sprintf("Name:\t\\nRssAnon: 0\nUmask:\t0022\nState:\t%s (of it)\nPPid:\t%d\nThreads:\t1\nVmPeak:\t 1 kB\nRssAnon:\t%8d kB\nRssFile:\t 999999999 kB\nRssShmem:\t%8d kB\nVmPTE:\t 0 kB\nVmSwap:\t 0 kB\n",
		state, parent, private<<10, shared<<10)
}

// ofTwo is text, a status, of a process of two threads.
func ofTwo(text string) string { return strings.Replace(text, "Threads:\t1", "Threads:\t2", 1) }

// rollup is what smaps_rollup says of so many megabytes.
func rollup(private, shared int) string {
	return fmt.Sprintf("55-7f ---p 00000000 00:00 0 [rollup]\nRss: 1 kB\nPss: 1 kB\nPss_Anon:\t%d kB\nPss_File:\t 999999999 kB\nPss_Shmem:\t%d kB\nSwapPss: 0 kB\n", private<<10, shared<<10)
}

func TestLook(t *testing.T) {
	const limit = 100 // megabytes
	for _, tt := range []struct {
		name   string
		make   func(p *fakeProc)
		held   int // megabytes
		others int
	}{
		{"the first alone", func(*fakeProc) {}, 10, 0},
		{"private and shared", func(p *fakeProc) { p.put("7/status", status("R", 1, 20, 30)) }, 60, 1},
		{"one that is over", func(p *fakeProc) {
			p.put("7/status", status("Z", 1, 20, 0))
			p.put("7/task/7/status", status("Z", 1, 20, 0))
		}, 10, 0},
		{"one whose first thread is over", func(p *fakeProc) {
			p.put("7/status", ofTwo(status("Z", 1, 0, 0)))
			p.put("7/task/7/status", ofTwo(status("Z", 1, 0, 0)))
			p.put("7/task/9/status", ofTwo(status("R", 1, 40, 0)))
		}, 50, 1},
		{"one whose threads are ending", func(p *fakeProc) {
			for _, name := range []string{"7", "7/task/7", "7/task/8"} {
				p.put(name+"/status", "Name:\tx\nState:\tR (running)\nPPid:\t1\nThreads:\t2\n")
			}
		}, 10, 1},
		{"one whose threads are not met", func(p *fakeProc) {
			p.put("7/status", ofTwo(status("Z", 1, 0, 0)))
			p.put("7/task/7/status", ofTwo(status("Z", 1, 0, 0)))
			p.put("7/task/9/comm", "x")
		}, limit, 1}, // a byte more, in fact
		{"one that is gone", func(p *fakeProc) { p.put("7/comm", "x") }, 10, 0},
		{"a descriptor costs a page", func(p *fakeProc) {
			p.put("7/status", status("S", 1, 0, 0))
			for range 256 {
				p.holds("7", "/dev/null")
			}
		}, 11, 1},
		{"a table of descriptors for the highest", func(p *fakeProc) {
			for _, pid := range []string{"7", "8"} {
				p.put(pid+"/status", status("S", 1, 30, 0)+"FDSize:\t2097152\n")
				p.put(pid+"/smaps_rollup", rollup(25, 0))
			}
		}, 10 + 2*(25+16), 2},
		{"a file of two", func(p *fakeProc) {
			file := p.file(20)
			for _, pid := range []string{"7", "8"} {
				p.put(pid+"/status", status("S", 1, 10, 0))
				p.holds(pid, file)
				p.holds(pid, "/dev/null")
				p.holds(pid, "/nowhere")
			}
		}, 50, 2},
		{"shares are less than sums", func(p *fakeProc) {
			for _, pid := range []string{"7", "8", "9"} {
				p.put(pid+"/status", status("S", 1, 60, 0))
				p.put(pid+"/smaps_rollup", rollup(21, 0))
			}
		}, 73, 3},
		{"shares are not to be had", func(p *fakeProc) {
			for _, pid := range []string{"7", "8"} {
				p.put(pid+"/status", status("S", 1, 46, 0))
			}
		}, 102, 2},
		{"a file that is mapped counts once", func(p *fakeProc) {
			file := p.file(40)
			p.put("7/status", status("S", 1, 20, 40))
			p.put("7/smaps_rollup", rollup(20, 40))
			p.put("7/smaps", smaps(file, 40))
			p.holds("7", file)
		}, 70, 1},
		{"a file that is mapped alone counts too", func(p *fakeProc) {
			file := p.file(30)
			p.put("7/status", status("S", 1, 20, 40))
			p.put("7/smaps_rollup", rollup(20, 40))
			p.put("7/smaps", smaps(p.file(1), 41))
			p.holds("7", file)
		}, 101, 1},
		{"page tables that take long to walk", func(p *fakeProc) {
			tables := fmt.Sprintf("VmPTE:\t%d kB", maxTables>>10+1)
			p.put("7/status", strings.Replace(status("S", 1, 20, 0), "VmPTE:\t 0 kB", tables, 1))
			p.put("7/smaps_rollup", rollup(1, 0))
		}, 10 + 20 + maxTables>>20, 1},
		{"maps that never end", func(p *fakeProc) {
			file := p.file(40)
			p.put("7/status", status("S", 1, 20, 40))
			p.put("7/smaps_rollup", rollup(20, 40))
			p.put("7/smaps", strings.Repeat("55-7f rw-s 00000000 00:01 5 /x\n", maxMaps/30))
			p.holds("7", file)
		}, 110, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newFakeProc(t)
			if !strings.Contains(tt.name, "first") && !strings.Contains(tt.name, "shares") {
				p.put("1/smaps_rollup", rollup(10, 0))
			}
			tt.make(p)
			held, others, err := p.look(limit << 20)
			if got := int(held+1<<19) >> 20; err != nil || got != tt.held || others != tt.others {
				t.Errorf("look = %d MiB, %d others, %v, want %d MiB, %d others", got, others, err, tt.held, tt.others)
			}
		})
	}
}

// smaps is what maps a file and something that has no file.
func smaps(file string, megabytes int) string {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("5500-5600 rw-p 00000000 00:00 0\nPss:\t 999999 kB\nVmFlags: rd\n7f00-7f80 rw-s 00000000 %02x:%02x %d\t/memfd:x (deleted)\nSize: 1 kB\nPss:\t%d kB\nSwapPss: 5 kB\n",
		unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, megabytes<<10)
}

// TestManyDescriptors: those beyond the bound are not looked at, and cost more.
func TestManyDescriptors(t *testing.T) {
	p := newFakeProc(t)
	for range 5 {
		p.holds("7", "/dev/null")
	}
	for left, want := range map[int]uint64{5: 5 * nearFile, 4: 4*nearFile + farFile, 0: 5 * farFile} {
		f := p.newFiles(1 << 30)
		f.left = left
		if err := f.add("7/fd"); err != nil {
			t.Fatal(err)
		}
		if f.bytes != want {
			t.Errorf("5 descriptors, %d to be looked at: %d bytes, want %d", left, f.bytes, want)
		}
	}
}

// stat is that of a process whose name looks like the end of one.
func stat(faults, started int) string {
	return fmt.Sprintf("7 (x) R 1 1 1 1 1 1 9 9) S 1 2 3 4 5 6 %d 11 %d 13 14 15 16 17 18 19 20 21 %d 23\n", faults, 1, started)
}

func TestProgress(t *testing.T) {
	if started, faults := progress([]byte(stat(40, 77))); started != 77 || faults != 41 {
		t.Errorf("progress = %d, %d, want 77, 41", started, faults)
	}
	for _, text := range []string{"", "7 (x", "7 (x) S 1 2 3"} {
		if started, faults := progress([]byte(text)); started != 0 || faults != 0 {
			t.Errorf("progress(%q) = %d, %d, want nothing", text, started, faults)
		}
	}
}

// TestEstimate: what came since the last exact sum is counted, whichever way.
func TestEstimate(t *testing.T) {
	page := uint64(os.Getpagesize())
	off := 2 * inexact()
	then := estimate{held: 1000 * page, known: 100 * page, marks: map[int]mark{1: {5, 10, 50 * page}, 7: {6, 20, 500 * page}}}
	for _, tt := range []struct {
		name  string
		now   map[int]mark
		known uint64
		want  uint64 // beyond held, less what is uncertain
	}{
		{"nothing", then.marks, 100 * page, 0},
		{"shared memory", then.marks, 130 * page, 30 * page},
		{"less of it", then.marks, 70 * page, 0},
		{"a process maps more", map[int]mark{7: {6, 20, 503 * page}}, 100 * page, 3 * page},
		{"a process maps less", map[int]mark{7: {6, 20, 3 * page}}, 100 * page, 0},
		{"pages are copied", map[int]mark{1: {5, 12, 50 * page}, 7: {6, 27, 500 * page}}, 100 * page, 9 * page},
		{"a process is new", map[int]mark{8: {9, 1000, 40 * page}}, 100 * page, 40 * page},
		{"a process has another's id", map[int]mark{7: {9, 1000, 40 * page}}, 100 * page, 40 * page},
		{"a process cannot be told from another", map[int]mark{7: {0, 0, 40 * page}}, 100 * page, 40 * page},
	} {
		want := then.held + tt.want + uint64(len(tt.now))*off
		if got, ok := then.most(tt.now, tt.known); !ok || got != want {
			t.Errorf("%s: most = %d, %v, want %d", tt.name, got, ok, want)
		}
	}
	if got, ok := (estimate{}).most(then.marks, 0); ok {
		t.Errorf("most without an exact sum = %d, want none", got)
	}
}

// TestLookAgain: an estimate is good until it may be past the limit.
func TestLookAgain(t *testing.T) {
	const limit = 200 // megabytes
	p := newFakeProc(t)
	set := func(faults, share int) {
		for _, pid := range []string{"7", "8"} {
			p.put(pid+"/status", status("S", 1, 120, 0))
			p.put(pid+"/stat", stat(faults, 5))
			p.put(pid+"/smaps_rollup", rollup(share, 0))
		}
	}
	perMB := 1 << 20 / os.Getpagesize()
	for _, step := range []struct{ faults, share, least, most int }{
		{100, 61, 132, 132},                  // exact
		{100 + 10*perMB, 99, 152, 199},       // an estimate, which does not look at shares
		{100 + 60*perMB, 71, 152, 152},       // exact again
		{100 + 160*perMB, 101, 201, 1 << 20}, // and past the limit
	} {
		set(step.faults, step.share)
		held, _, err := p.look(limit << 20)
		if got := int(held) >> 20; err != nil || got < step.least || got > step.most {
			t.Errorf("after %d faults: look = %d MiB, %v, want %d to %d", step.faults, got, err, step.least, step.most)
		}
	}
}

func TestMapped(t *testing.T) {
	for _, tt := range []struct {
		line string
		want mappedFile
		ok   bool
	}{
		{"7f00-7f80 rw-s 00000000 00:01 1034 /memfd:x (deleted)", mappedFile{unix.Mkdev(0, 1), 1034, false}, true},
		{"7f00-7f80 rw-s 00000000 00:01 3 /SYSV00000000 (deleted)", mappedFile{unix.Mkdev(0, 1), 3, true}, true},
		{"7f00-7f80 rw-s 00000000 00:01 3 /memfd:/SYSV (deleted)", mappedFile{unix.Mkdev(0, 1), 3, false}, true},
		{"7f00-7f80 r--p 00000000 103:2f 3 /usr/bin/x", mappedFile{unix.Mkdev(0x103, 0x2f), 3, false}, true},
		{"7f00-7f80 rw-p 00000000 00:00 0 ", mappedFile{0, 0, false}, true},
		{"Pss:                   4 kB", mappedFile{}, false},
		{"VmFlags: rd wr mr mw me ac sd", mappedFile{}, false},
		{"", mappedFile{}, false},
	} {
		if got, ok := mapped([]byte(tt.line)); got != tt.want || ok != tt.ok {
			t.Errorf("mapped(%q) = %v, %v, want %v, %v", tt.line, got, ok, tt.want, tt.ok)
		}
	}
}

func TestWait(t *testing.T) {
	for _, tt := range []struct {
		left uint64
		want time.Duration
	}{{0, shortestWait}, {1 << 20, shortestWait}, {uint64(processors()) << 30, longestWait}, {1 << 62, longestWait}} {
		if got := wait(tt.left); got != tt.want {
			t.Errorf("wait(%d) = %v, want %v", tt.left, got, tt.want)
		}
	}
	if a, b := wait(100<<20), wait(200<<20); a > b {
		t.Errorf("%v until 100 MiB are taken, %v until 200 are", a, b)
	}
}

func TestLeftOfHost(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct{ total, available, want uint64 }{
		{64 * gib, 8 * gib, 7 * gib},
		{64 * gib, 1 * gib, 0},
		{64 * gib, 1*gib + 1<<10, 1 << 10},
		{4 * gib, 1 * gib, 3 * gib / 4},
		{4 * gib, gib / 4, 0},
		{4 * gib, gib / 8, 0},
	} {
		text := fmt.Sprintf("MemTotal: %d kB\nMemFree: 7 kB\nMemAvailable:   %d kB\n", tt.total>>10, tt.available>>10)
		if got := leftOf([]byte(text)); got != tt.want {
			t.Errorf("of %d with %d available are left %d, want %d", tt.total, tt.available, got, tt.want)
		}
	}
}
