// Package policy decides whether a call may be made, and with which limits. It
// is pure functions on values: no state, no clock, no files. What they refuse is
// a fault that an agent can act on.
package policy

import (
	"math"
	"strconv"
	"time"

	"cloche.dev/cloche/policy/fault"
)

// MinTimeout is the shortest time that a call may ask for.
const MinTimeout = 100 * time.Millisecond

// Timeout returns how long a call may run that asked for that many seconds: def
// if it asked for nothing, never more than most. An error is a fault.
func Timeout(def, most time.Duration, asked *float64) (time.Duration, error) {
	if asked == nil {
		return min(def, most), nil
	}
	s := *asked
	// NaN is in no range.
	if !(s >= MinTimeout.Seconds() && s <= most.Seconds()) {
		return 0, fault.New(fault.Invalid, "timeout_seconds is %s and must be from %s to %s; leave it out for %s",
			number(s), seconds(MinTimeout), seconds(most), seconds(min(def, most)))
	}
	return min(time.Duration(math.Round(s*float64(time.Second))), most), nil
}

// Code checks the length of a call's code. An error is a fault.
func Code(maxBytes int64, code string) error {
	if n := int64(len(code)); n > maxBytes {
		return fault.New(fault.Invalid,
			"code has %d bytes, at most %d are allowed; send less of it, or compute the data in the code",
			n, maxBytes)
	}
	return nil
}

func seconds(d time.Duration) string { return number(d.Seconds()) }

func number(f float64) string { return strconv.FormatFloat(f, 'g', 15, 64) }
