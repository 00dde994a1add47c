package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/inventory"
	"cloche.dev/cloche/runtime/shim"
)

// madeUp returns a host on which all is well, with files, by their names.
func madeUp(t *testing.T, uid int, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"proc/self/ns/user": "", "usr/bin/python3": ""}
	maps.Copy(all, files)
	for name, text := range all {
		path := filepath.Join(root, name)
		if text == absent {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return host{
		root: root, uid: uid, release: "6.1.0-18-amd64",
		shimAt:     func() (string, error) { return filepath.Join(root, "usr/bin/python3"), nil },
		namespaces: func(context.Context) error { return nil },
	}
}

// absent is the text of a file that is not there.
const absent = "\x00"

// says checks what was found.
func says(t *testing.T, f finding, state state, detail, remedy string) {
	t.Helper()
	if f.State != state || !strings.Contains(f.Detail, detail) || f.Remedy != remedy {
		t.Errorf("found %+v\nwant %s, with %q, mended by %q", f, state, detail, remedy)
	}
}

func TestKernel(t *testing.T) {
	for _, test := range []struct {
		release string
		want    state
	}{
		{"6.18.44", good},
		{"5.12.0", good},
		{"5.12", good},
		{"5.11.22-generic", missing},
		{"4.19.0-26-amd64", missing},
		{"", limited},
		{"next", limited},
	} {
		h := madeUp(t, 1000, nil)
		h.release = test.release
		remedy := ""
		if test.want == missing {
			remedy = "sudo apt-get install linux-image-" + runtime.GOARCH + " && sudo reboot"
		}
		says(t, h.kernel(), test.want, test.release, remedy)
	}
}

func TestUserNamespaces(t *testing.T) {
	const apparmor = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	const clone = "proc/sys/kernel/unprivileged_userns_clone"
	const most = "proc/sys/user/max_user_namespaces"
	newKernel := "sudo apt-get install linux-image-" + runtime.GOARCH + " && sudo reboot"
	for _, test := range []struct {
		name           string
		uid            int
		files          map[string]string
		try            error
		state          state
		detail, remedy string
	}{
		{"allowed", 1000, map[string]string{most: "15000\n", clone: "1\n", apparmor: "0\n"}, nil, good, "allowed", ""},
		{"no switches", 1000, nil, nil, good, "allowed", ""},
		{"not built in", 1000, map[string]string{"proc/self/ns/user": absent}, nil, missing, "built without", newKernel},
		{"none", 1000, map[string]string{most: "0\n"}, nil, missing, "none are allowed", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"none for root", 0, map[string]string{most: "0\n"}, nil, missing, "none are allowed", "sysctl -w user.max_user_namespaces=15000"},
		{"not for users", 1000, map[string]string{clone: "0\n"}, nil, missing, "ordinary users may make none", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"not for users, but root", 0, map[string]string{clone: "0\n", apparmor: "1\n"}, nil, good, "allowed", ""},
		{"AppArmor", 1000, map[string]string{apparmor: "1\n"}, nil, missing, "AppArmor", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"all in use", 1000, nil, unix.ENOSPC, missing, "in use", "sudo sysctl -w user.max_user_namespaces=15000"},
		{
			"in a container", 0,
			map[string]string{".dockerenv": ""},
			unix.EPERM, missing, "the container that this runs in forbids them",
			"docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined IMAGE",
		},
		{"in a container that allows them", 0, map[string]string{"run/.containerenv": ""}, nil, good, "allowed", ""},
		{"for no known reason", 1000, nil, unix.EPERM, missing, "no switch forbids them (operation not permitted)", "sudo cloche doctor"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := madeUp(t, test.uid, test.files)
			h.namespaces = func(context.Context) error { return test.try }
			says(t, h.userNamespaces(t.Context()), test.state, test.detail, test.remedy)
		})
	}
}

func TestPrograms(t *testing.T) {
	h := madeUp(t, 1000, nil)
	says(t, h.python(), good, "/usr/bin/python3", "")
	says(t, h.shim(), good, "/usr/bin/python3", "")
	h.shimAt = func() (string, error) { return filepath.Join(h.root, "nowhere"), nil }
	says(t, h.shim(), missing, "nowhere: no such file", buildShim())
	h.shimAt = func() (string, error) { return "", errors.New("neither here nor there") }
	says(t, h.shim(), missing, "neither here nor there", buildShim())

	without := map[string]string{"usr/bin/python3": absent}
	says(t, madeUp(t, 1000, without).python(), missing, "is not there", "sudo apt-get install --no-install-recommends python3")
	says(t, madeUp(t, 0, without).python(), missing, "is not there", "apt-get install --no-install-recommends python3")
}

func TestShows(t *testing.T) {
	says(t, madeUp(t, 1000, nil).shows(), good, "the distribution's packages alone", "")
	says(t, madeUp(t, 1000, map[string]string{
		"usr/local/bin/mine": "", "usr/local/lib/own": "", "usr/local/etc/secret": "", "usr/local/src/x": "", "usr/local/sbin/y": "",
	}).shows(), good, "2 things below /usr that no package brought: local/bin/mine, local/lib/own; sandbox.host.hide", "")
	many := map[string]string{}
	for _, letter := range "abcdefghij" {
		many["usr/local/bin/"+string(letter)] = ""
	}
	says(t, madeUp(t, 1000, many).shows(), good, "10 things below /usr that no package brought: local/bin/a, ", "")
	if f := madeUp(t, 1000, many).shows(); strings.Contains(f.Detail, "local/bin/i") || !strings.Contains(f.Detail, "local/bin/h, …") {
		t.Errorf("more is listed than people read: %s", f.Detail)
	}
}

func TestUsable(t *testing.T) {
	h := madeUp(t, os.Getuid(), map[string]string{"file": "", "folder/x": ""})
	folder, file, nothing := filepath.Join(h.root, "folder"), filepath.Join(h.root, "file"), filepath.Join(h.root, "no thing")
	if got, want := h.usable(folder), "chmod 700 "+folder; got != want {
		t.Errorf("usable of a folder = %q, want %q", got, want)
	}
	if got, want := h.usable(file), "mv "+file+" "+file+".old"; got != want {
		t.Errorf("usable of a file = %q, want %q", got, want)
	}
	h.uid++
	for path, word := range map[string]string{folder: folder, nothing: "'" + nothing + "'"} {
		if got := h.usable(path); !strings.HasPrefix(got, "sudo install -d -m 700 -o ") || !strings.HasSuffix(got, " "+word) {
			t.Errorf("usable of what is another's or nowhere = %q", got)
		}
	}
}

func TestLimits(t *testing.T) {
	var all shim.Setup
	all.Limits.Memory, all.Limits.CPU, all.Limits.PIDs = true, true, true
	says(t, madeUp(t, 0, nil).limits(all), good, "memory, processors and processes", "")
	if f := madeUp(t, 1000, nil).limits(shim.Setup{}); f.State != limited || f.Remedy == "" {
		t.Errorf("without control groups: %+v", f)
	}
	if f := madeUp(t, 0, nil).limits(shim.Setup{}); f.State != limited || f.Remedy == "" || strings.Contains(f.Remedy, "sudo") {
		t.Errorf("without control groups, as root: %+v", f)
	}
}

func TestModules(t *testing.T) {
	h := madeUp(t, 1000, nil)
	has := func(names ...string) (inv inventory.Inventory) {
		for _, n := range names {
			inv.Packages = append(inv.Packages, inventory.Package{Name: n})
		}
		return inv
	}
	says(t, h.modules(has("NumPy", "pandas", "matplotlib", "six")), good, "are there", "")
	says(t, h.modules(has("pandas")), limited, "agents expect numpy, matplotlib", "sudo apt-get install --no-install-recommends python3-numpy python3-matplotlib")
}

func TestNoSandbox(t *testing.T) {
	says(t, madeUp(t, 0, nil).noSandbox(errors.New("broken"), ""), missing, "broken", buildShim())
	says(t, madeUp(t, 0, nil).noSandbox(errors.New("broken"), "first\nlast\n"), missing, "broken; the log ends: last", buildShim())
}
