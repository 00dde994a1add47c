package nearest

import (
	"strings"
	"testing"
)

func TestTo(t *testing.T) {
	names := []string{"cpus", "hide", "host", "image", "memory", "pids", "preload", "shm", "tmp", "work", "größe"}
	for in, want := range map[string]string{
		"memroy": "memory", "memory_": "memory", "cpu": "cpus", "cpsu": "cpus", "pid": "pids", "hst": "host",
		"wrok": "work", "preloads": "preload", "grösse": "größe", "": "", "x": "", "limits": "", strings.Repeat("z", 1<<20): "",
	} {
		if got := To(in, names); got != want {
			t.Errorf("To(%.40q) = %q, want %q", in, got, want)
		}
	}
	if got := To("a", nil); got != "" {
		t.Errorf("To of no names = %q, want none", got)
	}
}
