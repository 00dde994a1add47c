package watch

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Shared memory is counted where it is, not at who maps it: in the file systems
// that the sandbox has, in the segments of System V, in memory files that a
// descriptor holds. What is left are memory files that are mapped alone.

// placeBytes returns how much the file systems in memory hold, with what the
// kernel needs for their files.
func (in *inside) placeBytes() uint64 {
	const inode = 1 << 10 // what one costs the kernel, with its name
	in.mu.Lock()
	defer in.mu.Unlock()
	sum := uint64(0)
	for _, f := range in.places {
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &st); err == nil {
			sum += (st.Blocks - min(st.Bfree, st.Blocks)) * uint64(st.Bsize)
			sum += (st.Files - min(st.Ffree, st.Files)) * inode
		}
	}
	return sum
}

// segmentBytes returns how much the segments of System V hold (sysvipc(7)).
func (in *inside) segmentBytes() uint64 {
	if in.segments == nil {
		return 0
	}
	text, err := io.ReadAll(io.NewSectionReader(in.segments, 0, maxSegments))
	if err != nil {
		return 0
	}
	const rss, swap = 14, 15 // columns
	sum := uint64(0)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > swap {
			for _, column := range f[rss : swap+1] {
				n, _ := strconv.ParseUint(column, 10, 64) // the first line is titles
				sum += n
			}
		}
	}
	return sum
}

// files counts the memory files that descriptors hold, each once.
type files struct {
	in    *inside
	limit uint64
	seen  map[uint64]bool // by inode
	left  int             // how many may still be looked at
	brief bool            // more than those need not be counted
	bytes uint64
	proc  int // how many are of /proc
	// sockets are the names below /proc of what is told of them.
	sockets []string
}

func (in *inside) newFiles(limit uint64) *files {
	return &files{in: in, limit: limit, seen: map[uint64]bool{}, left: maxFiles}
}

// add counts those of the directory of descriptors. It reads no further than to
// the limit. An error is that it cannot be opened.
func (f *files) add(dir string) error {
	d, err := f.in.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer d.Close()
	fd := int(d.Fd())
	buf := make([]byte, 4<<10)
	for f.bytes <= f.limit && (f.left > 0 || !f.brief) {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil || n <= 0 {
			return nil // it is gone, or that was all
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			f.addOne(dir, fd, name)
		}
	}
	return nil
}

func (f *files) addOne(dir string, fd int, name string) {
	if name[0] == '.' {
		return
	}
	if f.left == 0 {
		f.bytes += farFile
		return
	}
	f.left--
	f.bytes += nearFile
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, 0) != nil {
		return
	}
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		f.sockets = append(f.sockets, dir+"info/"+name)
	}
	if st.Dev == f.in.device {
		f.proc++
	}
	if st.Dev != f.in.memory || f.seen[st.Ino] {
		return
	}
	f.seen[st.Ino] = true
	f.bytes += uint64(st.Blocks) * 512
}

// inexact is by how much a process's own sums may be wrong: the kernel adds up
// what each processor counted only now and then (lib/percpu_counter.c), for
// three sums.
func inexact() uint64 {
	n := processors()
	return uint64(3 * max(32, 2*n) * n * os.Getpagesize())
}

// exact returns how much tasks and known shared memory are; it reads page tables.
// Nothing is past limit because of what two processes have in common: then it is
// added up once more, for who had it in common may have it no longer.
func (in *inside) exact(tasks []task, known *files, limit uint64) uint64 {
	held := in.sum(tasks, known, limit)
	if held > limit {
		held = in.sum(in.withoutTwins(tasks), known, limit)
	}
	return held
}

// sum adds up what tasks and known shared memory are; it stops where it is past
// limit.
func (in *inside) sum(tasks []task, known *files, limit uint64) uint64 {
	shared := make([]uint64, len(tasks))
	var all memoryOf
	for i, t := range tasks {
		var private uint64
		private, shared[i] = in.proportion(t)
		all.private += private
		all.shared += shared[i]
		if all.private+known.bytes > limit {
			return all.private + known.bytes
		}
	}
	if most := all.private + all.shared + known.bytes; most <= limit {
		return most
	}
	if least := all.private + max(all.shared, known.bytes); least > limit {
		return least
	}
	// It depends on how much of the shared memory is known already.
	held := all.private + known.bytes
	for i, t := range tasks {
		held += in.unknown(t, known.seen, shared[i])
	}
	return held
}

// proportion returns a process's share of what it maps (smaps_rollup in
// proc_pid_smaps(5)); all of it if it cannot be looked into, and nothing if it
// has ended.
func (in *inside) proportion(t task) (private, shared uint64) {
	text, err := in.read(t.dir+"/smaps_rollup", maxStatus)
	if err == nil && bytes.Contains(text, []byte("\nPss_Anon:")) {
		return (count(text, "\nPss_Anon:")+count(text, "\nSwapPss:"))<<10 + t.kept, count(text, "\nPss_Shmem:") << 10
	}
	t, _ = in.task(t.pid)
	return t.private, t.shared
}

// maxMaps bounds what is read of one process's maps.
const maxMaps = 8 << 20

// unknown returns a process's share of mapped memory files that are neither of
// System V nor among known; shared if there is too much to read.
func (in *inside) unknown(t task, known map[uint64]bool, shared uint64) uint64 {
	if shared == 0 {
		return 0
	}
	f, err := in.open(t.dir+"/smaps", 0)
	if err != nil {
		return shared
	}
	defer f.Close()
	limited := &io.LimitedReader{R: f, N: maxMaps}
	sum, counts := uint64(0), false
	for s := bufio.NewScanner(limited); s.Scan(); {
		line := s.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			if counts {
				sum += count(rest, "") << 10
			}
			continue
		}
		if file, ok := mapped(line); ok {
			counts = file.uncounted(in.memory, known)
		}
	}
	if limited.N == 0 {
		return shared
	}
	return sum
}

// A mappedFile is what a line of maps says of its file.
type mappedFile struct {
	device, inode uint64
	segment       bool // of System V
}

// uncounted says whether it is a memory file that is not counted elsewhere.
func (m mappedFile) uncounted(memory uint64, known map[uint64]bool) bool {
	return m.device == memory && !m.segment && !known[m.inode]
}

// mapped reads a line of maps (proc_pid_maps(5)); false if it is none. A name
// tells a segment, for that of a memory file begins with "/memfd:".
func mapped(line []byte) (mappedFile, bool) {
	f := bytes.Fields(line)
	if len(f) < 5 || bytes.HasSuffix(f[0], []byte(":")) {
		return mappedFile{}, false
	}
	major, minor, ok := strings.Cut(string(f[3]), ":")
	a, aerr := strconv.ParseUint(major, 16, 32)
	b, berr := strconv.ParseUint(minor, 16, 32)
	inode, err := strconv.ParseUint(string(f[4]), 10, 64)
	if !ok || aerr != nil || berr != nil || err != nil {
		return mappedFile{}, false
	}
	m := mappedFile{device: unix.Mkdev(uint32(a), uint32(b)), inode: inode}
	m.segment = len(f) > 5 && bytes.HasPrefix(f[5], []byte("/SYSV"))
	return m, true
}
