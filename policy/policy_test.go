package policy

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/policy/fault"
)

func TestTimeout(t *testing.T) {
	const def, most = time.Minute, time.Hour
	if got, err := Timeout(def, most, nil); got != def || err != nil {
		t.Errorf("Timeout(nil) = %v, %v, want %v, nil", got, err, def)
	}
	if got, err := Timeout(most+1, most, nil); got != most || err != nil {
		t.Errorf("Timeout(nil) with a default past the largest = %v, %v, want %v, nil", got, err, most)
	}
	for asked, want := range map[float64]time.Duration{
		0.1: 100 * time.Millisecond, 0.25: 250 * time.Millisecond, 1: time.Second, 1.1: 1100 * time.Millisecond, 3600: time.Hour,
	} {
		if got, err := Timeout(def, most, &asked); got != want || err != nil {
			t.Errorf("Timeout(%v) = %v, %v, want %v, nil", asked, got, err, want)
		}
	}
	for asked, text := range map[float64]string{
		0: "0", -1: "-1", 0.0999: "0.0999", 3600.001: "3600.001", 1e300: "1e+300",
		math.Inf(1): "+Inf", math.Inf(-1): "-Inf", math.NaN(): "NaN",
	} {
		got, err := Timeout(def, most, &asked)
		wantFault(t, err, "timeout_seconds is "+text+" and must be from 0.1 to 3600; leave it out for 60")
		if got != 0 {
			t.Errorf("Timeout(%v) = %v with an error, want 0", asked, got)
		}
	}
}

func TestCode(t *testing.T) {
	for _, code := range []string{"", strings.Repeat("x", 10), "ééééé"} {
		if err := Code(10, code); err != nil {
			t.Errorf("Code(10, %q) = %v, want nil", code, err)
		}
	}
	wantFault(t, Code(10, "éééééx"),
		"code has 11 bytes, at most 10 are allowed; send less of it, or compute the data in the code")
}

func wantFault(t *testing.T, err error, text string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind() != fault.Invalid || f.Text() != text {
		t.Errorf("error %v, want the fault %q", err, text)
	}
}
