// Package doctor finds out what a host can do for sandboxes. It tries things
// where a try is cheap, rather than guess from versions, and names the command
// that mends what fails. What is tried leaves nothing behind.
package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/cgroup"
)

// A State is the outcome of a check.
type State string

// The states.
const (
	OK      State = "ok"
	Limited State = "limited" // it works, but less well than it could
	Missing State = "missing" // nothing runs until it is mended
)

// A Finding is what a check found. One that is not OK has a Remedy or a Why.
type Finding struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Remedy is the exact command that mends it, "" if nothing is to be mended.
	Remedy string `json:"remedy,omitempty"`
	// Or is another command that mends it, where there is a choice.
	Or string `json:"or,omitempty"`
	// Why says why no command mends it.
	Why string `json:"no_remedy,omitempty"`
}

// Options say what is looked at besides the host.
type Options struct {
	// Config and DataDir are what the command line says, "" for nothing.
	Config, DataDir string
	// Shim finds the program file of the shim.
	Shim func() (string, error)
	// Sweep removes what a server that died has left.
	Sweep func(name string) error
	// Readable is what a person reads of an error.
	Readable func(error) string
}

// A Host is what is looked at; tests look at a made-up one.
type Host struct {
	o       Options
	root    string // where its files are: "/"
	uid     int
	release string // of its kernel, as is build
	build   string
	env     func(string) string

	// What is tried on the host.
	try    func(ctx context.Context, data string) (trial, error)
	group  func(instance string) (cgroup.Limits, string, error)
	python func(ctx context.Context) (string, error)
	statfs func(path string, st *unix.Statfs_t) error
}

// This returns the host that this program runs on.
func This(o Options) *Host {
	h := &Host{
		o: o, root: "/", uid: os.Getuid(), env: os.Getenv,
		try: try, group: makeGroup, python: runPython, statfs: unix.Statfs,
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.release, h.build = unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])
	}
	return h
}

// Look makes all checks but those that need a sandbox, in an order in which a
// failure explains later ones.
func (h *Host) Look(ctx context.Context) []Finding {
	conf, policy := h.configuration()
	place, dir, own := h.dataDirectory()
	name, data := "", ""
	if own != nil {
		name, data = own.Name, dir // held as long as what is made for a try has it
	}
	t, err := h.try(ctx, data)
	findings := []Finding{h.kernel(), h.namespaces(t, err), h.ids(), h.seccomp(t), h.overlay(t), h.groups(name)}
	findings = append(findings, h.shim()...)
	findings = append(findings, h.interpreter(ctx), h.fonts(), conf, place)
	if own != nil {
		findings = append(findings, h.disk(data))
		if err := own.Close(); err != nil {
			findings = append(findings, limited(place.Name, "a name in it cannot be given up: "+err.Error(), h.usable(data)))
		}
	}
	return append(findings, h.shows(policy.Sandbox.Host.Hide))
}

// Works says that nothing that sandboxes need is missing.
func Works(findings []Finding) bool {
	for _, f := range findings {
		if f.State == Missing {
			return false
		}
	}
	return true
}

func good(name, detail string) Finding { return Finding{Name: name, State: OK, Detail: detail} }

func limited(name, detail, remedy string) Finding {
	return Finding{Name: name, State: Limited, Detail: detail, Remedy: remedy}
}

func missing(name, detail, remedy string) Finding {
	return Finding{Name: name, State: Missing, Detail: detail, Remedy: remedy}
}

// beyond is a finding that no command mends, and why.
func beyond(name string, state State, detail, why string) Finding {
	return Finding{Name: name, State: state, Detail: detail, Why: why}
}

// path returns where a file of the host is.
func (h *Host) path(name string) string { return filepath.Join(h.root, name) }

// there says whether the host has a file, or something else, of that name.
func (h *Host) there(name string) bool {
	_, err := os.Stat(h.path(name))
	return err == nil
}

// read returns the text of a small file without the space around it, "" if it
// cannot be read.
func (h *Host) read(name string) string {
	text, err := os.ReadFile(h.path(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// asRoot is a line of commands that need root.
func (h *Host) asRoot(commands ...string) string {
	if h.uid != 0 {
		for i, c := range commands {
			commands[i] = "sudo " + c
		}
	}
	return strings.Join(commands, " && ")
}

// install installs packages of the distribution's.
func (h *Host) install(packages ...string) string {
	return h.asRoot("apt-get install --no-install-recommends " + strings.Join(packages, " "))
}

// Quoted is a word of a shell's.
func Quoted(word string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+:@%="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// self is this program as a command that works from anywhere.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return "cloche"
	}
	return Quoted(path)
}
