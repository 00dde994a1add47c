package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
)

// The ids that sandboxes have on the host when the server is root. systemd's
// list of id ranges (UIDS-GIDS) shows them unused; what /etc/subuid hands out
// to people ends below.
const (
	firstID = 0x7000_0000
	idCount = 1 + maxSandboxes*sandbox.IDs // the shim's root, and a slice for each sandbox
)

// startTimeout bounds the start of a shim.
const startTimeout = 20 * time.Second

// A process is the shim as its parent sees it.
type process struct {
	cmd   *exec.Cmd
	group *cgroup.Group
	ended chan struct{}
}

// start starts a shim in user, mount and pid namespaces of its own and waits for
// its hello. After an error nothing is left behind.
func start(ctx context.Context, o Options) (*link, error) {
	owner := os.Getuid()
	if haveIDs() {
		owner = firstID
	}
	group := &cgroup.Group{}
	if !o.ungrouped {
		var err error
		if group, err = cgroup.Make(o.Instance, owner); err != nil {
			return nil, err
		}
	}
	setup := Setup{Cgroup: group.Path, Limits: group.Limits, Cold: o.cold}
	p, ours, err := spawn(o, setup, group)
	if err != nil {
		return nil, errors.Join(err, group.Remove(0))
	}
	c, err := newConn(ours)
	if err != nil {
		return nil, errors.Join(err, p.wait(0))
	}
	l := &link{conn: c, process: p, setup: setup, gone: make(chan struct{}), waiting: map[uint64]chan reply{}}
	if err := l.greet(ctx); err != nil {
		return nil, errors.Join(err, c.unix.Close(), p.wait(time.Second))
	}
	go l.read()
	return l, nil
}

// greet reads the shim's hello.
func (l *link) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the shim did not start in time"))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.conn.unix.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var a reply
	_, err := l.conn.receive(&a)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return fault.New(fault.Unavailable, "the shim ended at its start; cloche doctor says what is missing")
	case err != nil:
		return fmt.Errorf("read the shim's hello: %w", err)
	case a.Error != nil:
		return a.Error.err()
	case a.Hello == nil || a.Hello.Version != version:
		return fault.New(fault.Unavailable, "cloche and cloche-shim are of different versions; build both from one tree: go build -o DIR ./cmd/...")
	}
	return nil
}

// spawn starts the program and returns our end of its socket.
func spawn(o Options, setup Setup, group *cgroup.Group) (*process, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "shim"), os.NewFile(uintptr(pair[1]), "server")
	defer theirs.Close()
	program, err := sealed(o.Path)
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	defer program.Close()
	cmd := &exec.Cmd{
		Path:        fmt.Sprintf("/proc/self/fd/%d", program.Fd()),
		Args:        append([]string{"cloche-shim", "serve"}, setup.flags()...),
		Env:         []string{}, // nothing of the server's
		Dir:         "/",
		ExtraFiles:  []*os.File{theirs},
		Stderr:      o.Stderr,
		SysProcAttr: birth(),
	}
	if dir := group.ShimDir(); dir != "" {
		f, err := os.Open(dir) //nolint:forbidigo // a control group of ours
		if err != nil {
			return nil, nil, errors.Join(err, ours.Close())
		}
		defer f.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
	}
	begin := cmd.Start
	if haveIDs() {
		begin = func() error { return asOwner(firstID, cmd.Start) }
	}
	if err := begin(); err != nil {
		return nil, nil, errors.Join(startFault(err), ours.Close())
	}
	p := &process{cmd: cmd, group: group, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its log said why; the link notices the end
	}()
	return p, ours, nil
}

// birth describes the shim's namespaces (clone(2), user_namespaces(7)).
func birth() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Setsid:     true, // a terminal's Ctrl-C is the server's to handle
	}
	if haveIDs() {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: firstID, Size: idCount}}
		a.GidMappings = a.UidMappings
		a.GidMappingsEnableSetgroups = true
		a.Credential = &syscall.Credential{}
		return a
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return a
}

// haveIDs says whether sandboxes can have ids that nobody else has: for root, but
// not for the root of a user namespace that lacks them, who is an ordinary user
// elsewhere.
func haveIDs() bool {
	if os.Getuid() != 0 {
		return false
	}
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(file) //nolint:forbidigo // the kernel's
		if err != nil || !covers(string(text), firstID, idCount) {
			return false
		}
	}
	return true
}

// covers says whether one line of a map (user_namespaces(7)) has count ids from
// first on.
func covers(idMap string, first, count uint64) bool {
	for line := range strings.Lines(idMap) {
		var inside, outside, size uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err == nil && inside <= first && first+count <= inside+size {
			return true
		}
	}
	return false
}

func startFault(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES) {
		return fault.Wrap(fault.Unavailable, err, "this host refuses user namespaces, so no code can be run; cloche doctor names the command that allows them")
	}
	return fault.Wrap(fault.Unavailable, err, "cloche-shim could not be started; cloche doctor says why")
}

// sealed returns the program file's bytes as a sealed memory file: the shim may
// not be able to reach its own path, and nobody can change what runs.
func sealed(path string) (*os.File, error) {
	in, err := os.Open(path) //nolint:forbidigo // our own program
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cloche-shim is not there; build it beside cloche: go build -o DIR ./cmd/..., or name it in CLOCHE_SHIM")
	}
	defer in.Close()
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("cloche-shim", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("cloche-shim", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make memory file: %w", err)
	}
	out := os.NewFile(uintptr(fd), "cloche-shim")
	if _, err := io.Copy(out, in); err != nil {
		err = fault.Wrap(fault.Unavailable, err, "%s is no program that can be read; build it: go build -o DIR ./cmd/..., or correct CLOCHE_SHIM", path)
		return nil, errors.Join(err, out.Close())
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(out.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("seal the shim: %w", err), out.Close())
	}
	return out, nil
}

// wait waits for the shim's end and ends it after limit. Then it removes the
// control group.
func (p *process) wait(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		p.group.Kill() // what a freezer holds would hold the shim's end
		<-p.ended
	}
	return p.group.Remove(time.Second)
}

// flags are how Setup is told to the shim.
func (s Setup) flags() []string {
	return []string{
		"-cgroup=" + s.Cgroup,
		"-limit-memory=" + strconv.FormatBool(s.Limits.Memory),
		"-limit-cpu=" + strconv.FormatBool(s.Limits.CPU),
		"-limit-pids=" + strconv.FormatBool(s.Limits.PIDs),
		"-cold=" + strconv.FormatBool(s.Cold),
	}
}
