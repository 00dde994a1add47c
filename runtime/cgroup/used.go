package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Used returns how much memory what is in the group, and below it, has taken that
// nobody can drop: that of processes, and of files in memory. It is 0 if unknown.
func (g *Group) Used() int64 {
	var most int64
	for _, dir := range g.dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
		if err != nil {
			continue
		}
		most = max(most, used(stat))
	}
	return most
}

// used is Used by what memory.stat says, of either version.
func used(stat []byte) int64 {
	var v1, v2 int64
	for line := range bytes.Lines(stat) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 {
			continue
		}
		switch string(name) {
		case "total_rss", "total_shmem":
			v1 += n
		case "anon", "shmem", "kernel":
			v2 += n
		}
	}
	return max(v1, v2)
}
