package mcp

import (
	"encoding/json"
	"testing"
	"time"

	"cloche.dev/cloche/policy/fault"
)

// TestFailed: a program learns when to call again, if anybody knows.
func TestFailed(t *testing.T) {
	busy := fault.New(fault.Busy, "full")
	for _, tt := range []struct {
		name string
		f    *fault.Error
		want string
	}{
		{"nobody knows", busy, `{"error":{"kind":"busy","text":"full"}}`},
		{"later", busy.After(3 * time.Second), `{"error":{"kind":"busy","text":"full","retry_after_seconds":3}}`},
	} {
		got, err := json.Marshal(failed(tt.f).StructuredContent)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: failed = %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}
