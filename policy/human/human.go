// Package human writes numbers, sizes and times the way people read them, the
// same wherever the server speaks to a person or an agent.
package human

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes returns a size with two or three digits and a unit of a thousand:
// "999 B", "1.2 MB", "676 MB", "1 GB". It rounds to the nearest.
func Bytes(n int64) string {
	if n < 0 {
		return "-" + bytes(-float64(n))
	}
	return bytes(float64(n))
}

func bytes(n float64) string {
	const kB, least = 1e3, 10
	if n < kB {
		return decimal(n, 0) + " B"
	}
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		n /= kB
		switch {
		case n < least-0.05:
			return decimal(n, 1) + " " + unit
		case n < kB-0.5:
			return decimal(n, 0) + " " + unit
		}
	}
	return decimal(n/kB, 1) + " EB"
}

// Count returns a whole number with its thousands apart: "1,234".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Plural returns the number with what is counted, a noun that takes an s: "0
// files", "1 file", "1,234 files".
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Seconds returns a time in seconds, as exact as matters at its length: "0.004
// s", "0.04 s", "2.1 s", "60 s", "3,600 s". A time above zero is at least "0.001
// s", one below is "0 s".
func Seconds(d time.Duration) string {
	s := d.Seconds()
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return "0.001 s"
	case d < 10*time.Millisecond:
		return decimal(s, 3) + " s"
	case d < time.Second:
		return decimal(s, 2) + " s"
	case d < 100*time.Second:
		return decimal(s, 1) + " s"
	}
	return Count(int64(math.Round(s))) + " s"
}

// decimal returns n with at most the given digits after the point, no zeros at
// the end of them.
func decimal(n float64, digits int) string {
	s := strconv.FormatFloat(n, 'f', digits, 64)
	if digits == 0 {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
