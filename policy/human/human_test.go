package human

import (
	"math"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		n    int64
		want string
	}{
		{0, "0 B"},
		{1, "1 B"},
		{999, "999 B"},
		{1_000, "1 kB"},
		{1_049, "1 kB"},
		{1_051, "1.1 kB"},
		{9_949, "9.9 kB"},
		{9_950, "10 kB"},
		{45_000, "45 kB"},
		{999_499, "999 kB"},
		{999_500, "1 MB"},
		{1_200_000, "1.2 MB"},
		{676_000_000, "676 MB"},
		{1_000_000_000, "1 GB"},
		{1 << 30, "1.1 GB"},
		{2_500_000_000_000, "2.5 TB"},
		{math.MaxInt64, "9.2 EB"},
		{-1_200_000, "-1.2 MB"},
		{math.MinInt64, "-9.2 EB"},
	} {
		if got := Bytes(tt.n); got != tt.want {
			t.Errorf("Bytes(%d) = %q, want %q", tt.n, got, tt.want)
		}
	}
}

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		n    int64
		want string
	}{
		{0, "0"},
		{999, "999"},
		{1_000, "1,000"},
		{19_988, "19,988"},
		{1_499_000, "1,499,000"},
		{-999, "-999"},
		{-1_000, "-1,000"},
		{math.MaxInt64, "9,223,372,036,854,775,807"},
		{math.MinInt64, "-9,223,372,036,854,775,808"},
	} {
		if got := Count(tt.n); got != tt.want {
			t.Errorf("Count(%d) = %q, want %q", tt.n, got, tt.want)
		}
	}
}

func TestPlural(t *testing.T) {
	for _, tt := range []struct {
		n    int64
		want string
	}{
		{0, "0 files"},
		{1, "1 file"},
		{2, "2 files"},
		{19_990, "19,990 files"},
	} {
		if got := Plural(tt.n, "file"); got != tt.want {
			t.Errorf("Plural(%d, %q) = %q, want %q", tt.n, "file", got, tt.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0 s"},
		{0, "0 s"},
		{1, "0.001 s"},
		{999 * time.Microsecond, "0.001 s"},
		{4 * time.Millisecond, "0.004 s"},
		{9_999 * time.Microsecond, "0.01 s"},
		{40 * time.Millisecond, "0.04 s"},
		{500 * time.Millisecond, "0.5 s"},
		{999 * time.Millisecond, "1 s"},
		{time.Second, "1 s"},
		{2_100 * time.Millisecond, "2.1 s"},
		{12_500 * time.Millisecond, "12.5 s"},
		{60 * time.Second, "60 s"},
		{99_990 * time.Millisecond, "100 s"},
		{100_400 * time.Millisecond, "100 s"},
		{time.Hour, "3,600 s"},
	} {
		if got := Seconds(tt.d); got != tt.want {
			t.Errorf("Seconds(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}
