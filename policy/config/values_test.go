package config

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "4096": 4096, "1 B": 1, "1kB": 1000, "1 kB": 1000, "1KiB": 1024, "12   MB": 12000000, "1 MiB": 1 << 20,
		"1 GB": 1000000000, "1GiB": 1 << 30, "2 TB": 2000000000000, "1 TiB": 1 << 40, "007": 7,
		"9223372036854775807": math.MaxInt64, "8388607 TiB": 8388607 << 40, "9223372 TB": 9223372000000000000,
	} {
		got, err := ParseSize(in)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d, nil", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", " ", "B", "GB", "-1", "+1", " 1", "1 ", "1 GB ", "1  ", "1 gb", "1 Gb", "1G", "1 KB", "1.5 GB", "1e3", "1_000", "0x10", "1\tGB",
		"9223372036854775808", "8388608 TiB", "9223373 TB", "٣ GB",
	} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, nil, want an error", in, got)
		}
	}
}

func TestSizeString(t *testing.T) {
	for in, want := range map[Size]string{
		0: "0 B", 1: "1 B", 999: "999 B", 1000: "1 kB", 1024: "1 KiB", 1001: "1001 B", 12 * KB: "12 kB", 1500 * MB: "1500 MB",
		GB: "1 GB", GiB: "1 GiB", 512 * MiB: "512 MiB", 3 * TB: "3 TB", TiB: "1 TiB", math.MaxInt64: "9223372036854775807 B",
	} {
		if got := in.String(); got != want {
			t.Errorf("Size(%d).String() = %q, want %q", int64(in), got, want)
		}
		if back, err := ParseSize(want); err != nil || back != in {
			t.Errorf("ParseSize(%q) = %d, %v, want %d, nil", want, back, err, in)
		}
	}
}

func TestDurationString(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 100 * time.Millisecond: "100ms", time.Minute: "1m", 10 * time.Minute: "10m", 90 * time.Second: "1m30s",
		time.Hour: "1h", 20 * time.Hour: "20h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 100 * time.Hour: "100h", 1500 * time.Millisecond: "1.5s",
	} {
		if got := Duration(in).String(); got != want {
			t.Errorf("Duration(%v).String() = %q, want %q", in, got, want)
		}
		if back, err := time.ParseDuration(want); err != nil || back != in {
			t.Errorf("time.ParseDuration(%q) = %v, %v, want %v, nil", want, back, err, in)
		}
	}
}

func TestPreloadNames(t *testing.T) {
	for _, tt := range []struct {
		p    Preload
		want []string
	}{
		{Preload{Auto: true}, []string{"numpy", "pandas", "matplotlib.pyplot"}},
		{Preload{Modules: []string{"x"}}, []string{"x"}},
		{Preload{}, nil},
	} {
		if diff := cmp.Diff(tt.want, tt.p.Names()); diff != "" {
			t.Errorf("%+v.Names() (-want +got):\n%s", tt.p, diff)
		}
	}
}
