package container

// #cgo LDFLAGS: -static
import "C"

// Where the step and what it needs are, inside every sandbox. They are on the
// read-only root filesystem and hold nothing secret.
const (
	stepPath   = "/.cloche/step"
	filterPath = "/.cloche/filter"
	parentPath = "/.cloche/parent.py"
)
