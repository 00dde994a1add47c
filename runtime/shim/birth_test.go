package shim

import (
	"fmt"
	"testing"
)

func TestCovers(t *testing.T) {
	tests := []struct {
		name, idMap string
		want        bool
	}{
		{"the host", "         0          0 4294967295\n", true},
		{"just enough", fmt.Sprintf("0 0 %d\n", firstID+idCount), true},
		{"one too few", fmt.Sprintf("0 0 %d\n", firstID+idCount-1), false},
		{"begins at the first", fmt.Sprintf("%d 100000 %d\n", firstID, idCount), true},
		{"begins after it", fmt.Sprintf("%d 100000 %d\n", firstID+1, idCount), false},
		{"a container's", "0 100000 65536\n", false},
		{"one id", "0 1000 1\n", false},
		{"a later line", "0 1000 1\n1 100000 4294900000\n", true},
		{"in two pieces", fmt.Sprintf("0 0 %d\n%d 5 %d\n", firstID+8, firstID+8, idCount), false},
		{"nothing", "", false},
		{"no map", "x y z\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := covers(tt.idMap, firstID, idCount); got != tt.want {
				t.Errorf("covers(%q) = %v, want %v", tt.idMap, got, tt.want)
			}
		})
	}
}
