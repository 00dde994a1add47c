package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// unreleased is the version of a build of no release.
const unreleased = "0.1.0-dev"

// version returns that of the release, or unreleased and the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unreleased
	}
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.HasPrefix(v, "v0.0.0-") {
		return strings.TrimPrefix(v, "v")
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return unreleased + "+" + s.Value[:12]
		}
	}
	return unreleased
}

type versionCommand struct {
	JSON bool `help:"Print JSON."`
}

func (versionCommand) Help() string {
	return "Exit codes: 0.\n\nExample: cloche version --json"
}

// Run prints the version.
func (c *versionCommand) Run(s streams) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]string{
			"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
		})
	}
	_, err := fmt.Fprintf(s.out, "cloche %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
