package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Size is a number of bytes.
type Size int64

// The units of a Size: those of a thousand and those of 1,024.
const (
	KB Size = 1e3
	MB Size = 1e6
	GB Size = 1e9
	TB Size = 1e12

	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// units has the units with their names, the largest first.
var units = []struct {
	name  string
	bytes Size
}{
	{"TiB", TiB},
	{"TB", TB},
	{"GiB", GiB},
	{"GB", GB},
	{"MiB", MiB},
	{"MB", MB},
	{"KiB", KiB},
	{"kB", KB},
	{"B", 1},
}

// ParseSize reads a whole number with or without a unit: "1 GB", "1GiB", "4096".
// Names of units are exact, and there are no fractions, so that what was
// written is what is meant.
func ParseSize(s string) (Size, error) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: not a whole number of bytes", s)
	}
	unit := strings.TrimLeft(s[digits:], " ")
	if unit == "" && digits == len(s) {
		return Size(n), nil
	}
	for _, u := range units {
		if u.name != unit {
			continue
		}
		if n > math.MaxInt64/int64(u.bytes) {
			return 0, fmt.Errorf("size %q: too large", s)
		}
		return Size(n) * u.bytes, nil
	}
	return 0, fmt.Errorf("size %q: no such unit", s)
}

// String returns the size in the largest unit that it is a whole number of.
// ParseSize reads it back exactly, unless it is negative.
func (s Size) String() string {
	for _, u := range units {
		if s%u.bytes == 0 && s != 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + " " + u.name
		}
	}
	return "0 B"
}

// A Duration is a time.Duration that is written as "15m".
type Duration time.Duration

// String returns the duration without the parts that are zero: "1h", not
// "1h0m0s". time.ParseDuration reads it back exactly.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// A Preload says which modules are imported before a call runs.
type Preload struct {
	// Auto stands for those of AutoModules that the image has. Modules is empty.
	Auto bool
	// Modules are the modules that were asked for by name.
	Modules []string
}

// AutoModules returns what Preload means by auto, where installed.
func AutoModules() []string {
	return []string{"numpy", "pandas", "matplotlib.pyplot"}
}

// Names returns the modules to import, each once. With Auto, one that is not
// installed is left out.
func (p Preload) Names() []string {
	if p.Auto {
		return AutoModules()
	}
	var names []string
	for _, name := range p.Modules {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
