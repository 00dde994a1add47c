package shim

import "testing"

func TestCovers(t *testing.T) {
	tests := []struct {
		name, idMap string
		want        bool
	}{
		{"the host", "         0          0 4294967295\n", true},
		{"just enough", "0 0 1879113728\n", true},
		{"one too few", "0 0 1879113727\n", false},
		{"begins at the first", "1879048192 100000 65536\n", true},
		{"begins after it", "1879048193 100000 65536\n", false},
		{"a container's", "0 100000 65536\n", false},
		{"one id", "0 1000 1\n", false},
		{"a later line", "0 1000 1\n1 100000 4294900000\n", true},
		{"in two pieces", "0 0 1879048200\n1879048200 5 100000\n", false},
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
