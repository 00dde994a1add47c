package cleanup_test

import (
	"slices"
	"testing"

	"cloche.dev/cloche/runtime/cleanup"
)

func TestClean(t *testing.T) {
	var undone []int
	undo := func(n int) func() { return func() { undone = append(undone, n) } }
	c := cleanup.Make(undo(1))
	c.Add(undo(2))
	c.Clean()
	c.Clean()
	if want := []int{2, 1}; !slices.Equal(undone, want) {
		t.Errorf("undone: %v, want %v", undone, want)
	}
}

func TestRelease(t *testing.T) {
	c := cleanup.Make(func() { t.Error("what was released was undone") })
	c.Add(func() { t.Error("what was released was undone") })
	c.Release()
	c.Clean()
}
