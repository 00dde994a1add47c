package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/policy/fault"
)

func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"fault", fault.New(fault.Invalid, "no code"), `{"error":{"kind":"invalid","text":"no code"},"isError":true}`},
		{"later", fault.New(fault.Busy, "full").After(1500 * time.Millisecond), `{"error":{"kind":"busy","retry_after_seconds":1.5,"text":"full"},"isError":true}`},
		{"other", errors.New("broken"), `{"error":{"kind":"internal","text":"broken"},"isError":true}`},
	} {
		var said strings.Builder
		if err := encode(&said, refusal(tt.err)); err != nil || said.String() != tt.want+"\n" {
			t.Errorf("%s: refusal = %s, %v, want %s", tt.name, said.String(), err, tt.want)
		}
	}
}
