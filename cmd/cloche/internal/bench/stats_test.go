package bench

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// upTo returns 1, 2, … n milliseconds, out of order.
func upTo(n int) (list []time.Duration) {
	for i := range n {
		list = append(list, time.Duration((i*7919)%n+1)*time.Millisecond) // 7919 is prime
	}
	return list
}

func TestTimes(t *testing.T) {
	const ms = Millis(time.Millisecond)
	for _, test := range []struct {
		name string
		list []time.Duration
		want *Times
	}{
		{"none", nil, nil},
		{"one", upTo(1), &Times{Count: 1, Median: ms, P99: ms, Longest: ms}},
		{"two", upTo(2), &Times{Count: 2, Median: 3 * ms / 2, P99: 2 * ms, Longest: 2 * ms}},
		{"three", upTo(3), &Times{Count: 3, Median: 2 * ms, P99: 3 * ms, Longest: 3 * ms}},
		{"four", upTo(4), &Times{Count: 4, Median: 5 * ms / 2, P99: 4 * ms, Longest: 4 * ms}},
		{"21", upTo(21), &Times{Count: 21, Median: 11 * ms, P99: 21 * ms, Longest: 21 * ms}},
		{"99", upTo(99), &Times{Count: 99, Median: 50 * ms, P99: 99 * ms, Longest: 99 * ms}},
		{"100", upTo(100), &Times{Count: 100, Median: 101 * ms / 2, P99: 99 * ms, Longest: 100 * ms}},
		{"101", upTo(101), &Times{Count: 101, Median: 51 * ms, P99: 100 * ms, Longest: 101 * ms}},
		{"200", upTo(200), &Times{Count: 200, Median: 201 * ms / 2, P99: 198 * ms, Longest: 200 * ms}},
		{"1,000", upTo(1000), &Times{Count: 1000, Median: 1001 * ms / 2, P99: 990 * ms, Longest: 1000 * ms}},
		{"one that is long", append(upTo(20), time.Minute), &Times{Count: 21, Median: 11 * ms, P99: Millis(time.Minute), Longest: Millis(time.Minute)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := append([]time.Duration(nil), test.list...)
			if diff := cmp.Diff(test.want, timesOf(test.list)); diff != "" {
				t.Errorf("timesOf (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.list); diff != "" {
				t.Errorf("the list was changed:\n%s", diff)
			}
		})
	}
	if got := Median(nil); got != 0 {
		t.Errorf("Median of nothing = %v", got)
	}
}

func TestMillis(t *testing.T) {
	for _, test := range []struct {
		d          time.Duration
		said, json string
	}{
		{0, "0.0 ms", "0.000"},
		{1234 * time.Microsecond, "1.2 ms", "1.234"},
		{99_900 * time.Microsecond, "99.9 ms", "99.900"},
		{99_960 * time.Microsecond, "100 ms", "99.960"},
		{999_400 * time.Microsecond, "999 ms", "999.400"},
		{999_600 * time.Microsecond, "1.00 s", "999.600"},
		{3 * time.Second, "3.00 s", "3000.000"},
	} {
		text, err := json.Marshal(Millis(test.d))
		if got := Millis(test.d).String(); got != test.said || string(text) != test.json || err != nil {
			t.Errorf("%v is %q and %s, %v, want %q and %s", test.d, got, text, err, test.said, test.json)
		}
	}
}
