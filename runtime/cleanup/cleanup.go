// Package cleanup undoes half-made things on every way out but that of success.
package cleanup

import "slices"

// A Cleanup is what is to be undone. It is for one goroutine.
type Cleanup struct{ undo []func() }

// Make returns a Cleanup that calls undo.
func Make(undo func()) *Cleanup { return &Cleanup{undo: []func(){undo}} }

// Add has undo called too, before what was added before it.
func (c *Cleanup) Add(undo func()) { c.undo = append(c.undo, undo) }

// Clean undoes what was not released, the last first. It is to be deferred.
func (c *Cleanup) Clean() {
	all := c.undo
	c.undo = nil
	for _, undo := range slices.Backward(all) {
		undo()
	}
}

// Release says that all is to stay.
func (c *Cleanup) Release() { c.undo = nil }
