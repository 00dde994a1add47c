package watch

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// withoutTwins leaves out each process whose memory is its parent's, not a copy
// of it: so it is from vfork to execve, and each would count all of it
// (posix_spawn(3) and Python's subprocess start programs that way).
func (in *inside) withoutTwins(tasks []task) []task {
	if len(tasks) < 3 { // the first, and who has a child
		return tasks
	}
	outer := in.outerPIDs()
	var rest []task
	for _, t := range tasks {
		child, parent := outer[t.pid], outer[t.parent]
		if t.parent <= 1 || child == 0 || parent == 0 || !sameMemory(child, parent) {
			rest = append(rest, t)
		}
	}
	return rest
}

// sameMemory says whether two processes, by our own ids of them, have one
// address space (kcmp(2)).
func sameMemory(a, b int) bool {
	const vm = 1 // KCMP_VM
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), vm, 0, 0, 0)
	return errno == 0 && r == 0
}

// outerPIDs returns our own ids of the sandbox's processes, by those that they
// have in there. It reads the /proc of this process's mount namespace.
func (in *inside) outerPIDs() map[int]int {
	var namespace unix.Stat_t
	if unix.Fstatat(int(in.proc.Fd()), "1/ns/pid", &namespace, 0) != nil {
		return nil
	}
	proc, err := openFile("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil
	}
	defer proc.Close()
	ours := &inside{proc: proc}
	pids, err := ours.pids()
	if err != nil {
		return nil
	}
	outer := map[int]int{}
	for _, pid := range pids {
		dir := strconv.Itoa(pid)
		var st unix.Stat_t
		if pid == os.Getpid() || unix.Fstatat(int(proc.Fd()), dir+"/ns/pid", &st, 0) != nil || st.Ino != namespace.Ino {
			continue
		}
		text, err := ours.read(dir+"/status", maxStatus)
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(after(text, "\nNSpid:")), "\n")
		ids := strings.Fields(line)
		if len(ids) == 0 {
			continue
		}
		if inner, err := strconv.Atoi(ids[len(ids)-1]); err == nil {
			outer[inner] = pid
		}
	}
	return outer
}
