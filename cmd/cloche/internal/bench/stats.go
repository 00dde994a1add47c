package bench

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Millis is a time that JSON carries in milliseconds.
type Millis time.Duration

// MarshalJSON implements json.Marshaler.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/float64(time.Millisecond), 'f', 3, 64), nil
}

// String returns the time as exactly as it is worth: "5.1 ms", "120 ms", "1.23 s".
func (m Millis) String() string {
	ms := float64(m) / float64(time.Millisecond)
	switch {
	case ms < 99.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}

// Times sums up how long something took.
type Times struct {
	Count   int    `json:"count"`
	Median  Millis `json:"median_ms"`
	P99     Millis `json:"p99_ms"`
	Longest Millis `json:"longest_ms"`
}

// timesOf sums up a list, nil if it is empty.
func timesOf(list []time.Duration) *Times {
	if len(list) == 0 {
		return nil
	}
	return &Times{Count: len(list), Median: Millis(Median(list)), P99: Millis(p99(list)), Longest: Millis(slices.Max(list))}
}

// Median returns the middle of a list, which is the mean of two if their number
// is even; 0 if there is nothing.
func Median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	upper := sorted[len(sorted)/2]
	lower := sorted[(len(sorted)-1)/2]
	return lower + (upper-lower)/2
}

// p99 returns the shortest time that at least 99 of 100 do not pass: of fewer
// than a hundred the longest.
// Preconditions: list is not empty.
func p99(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	rank := (99*len(sorted) + 99) / 100 // rounded up
	return sorted[rank-1]
}
