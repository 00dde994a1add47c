package shim

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cloche.dev/cloche/policy/fault"
)

// libcontainer is the module that the shim makes containers with.
const libcontainer = "github.com/opencontainers/runc"

// fixed are the first releases of each line that have the fixes of the escapes
// published as CVE-2025-31133, CVE-2025-52565, CVE-2025-52881 and CVE-2026-41579.
// Lines that are older than the first have not; those after the last have.
var fixed = [][3]int{{1, 3, 6}, {1, 4, 3}, {1, 5, 0}}

// ErrOld is the cause of an error about a libcontainer that lacks the fixes.
var ErrOld = errors.New("libcontainer is older than 1.3.6, 1.4.3 and 1.5.0")

// Libcontainer returns the version of libcontainer that the program file path was
// built with. It is an error, with ErrOld as its cause, if that lacks the fix of
// a published escape, and another one if the file does not tell.
func Libcontainer(path string) (string, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read how the shim was built: %w", err)
	}
	for _, m := range info.Deps {
		if m.Path != libcontainer {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		version := strings.TrimPrefix(m.Version, "v")
		switch patched, err := Patched(m.Version); {
		case err != nil:
			return "", err
		case !patched:
			return version, fault.Wrap(fault.Unavailable, ErrOld,
				"cloche-shim was built with libcontainer %s, from which published attacks escape; build it anew from cloche's own tree: go build -o DIR ./cmd/...", version)
		}
		return version, nil
	}
	return "", fmt.Errorf("%s was not built with libcontainer", path)
}

// Patched says whether the version of libcontainer, as "v1.5.3", has the fixes of
// all escapes that were published. What comes before a release, as "v1.5.0-rc.3",
// counts as older than it.
func Patched(version string) (bool, error) {
	plain, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	release, before, _ := strings.Cut(plain, "-")
	var v [3]int
	parts := strings.Split(release, ".")
	if len(parts) != len(v) {
		return false, fmt.Errorf("%q is no version of libcontainer", version)
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return false, fmt.Errorf("%q is no version of libcontainer", version)
		}
		v[i] = int(n)
	}
	for _, f := range fixed {
		if v[0] == f[0] && v[1] == f[1] {
			return v[2] > f[2] || v[2] == f[2] && before == "", nil
		}
	}
	last := fixed[len(fixed)-1]
	return v[0] > last[0] || v[0] == last[0] && v[1] > last[1], nil
}
