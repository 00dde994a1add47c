package container

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/runc/libcontainer/configs"
)

// IDs tells which user ids the shim's own user namespace has.
type IDs struct {
	// Single: it has one, as when an ordinary user started it.
	Single bool
}

// ReadIDs reads them from the kernel (user_namespaces(7)).
func ReadIDs() (IDs, error) {
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return IDs{}, err
	}
	defer f.Close()
	total := int64(0)
	for s := bufio.NewScanner(io.LimitReader(f, 64<<10)); s.Scan(); {
		var inside, outside, size int64
		if _, err := fmt.Sscan(s.Text(), &inside, &outside, &size); err != nil {
			return IDs{}, fmt.Errorf("read /proc/self/uid_map: %w", err)
		}
		total += size
	}
	return IDs{Single: total <= agent+1}, nil
}

// inside is the map of a sandbox's user namespace. With many ids its root is
// our 1, so that nothing inside ever is our root.
func (i IDs) inside() []configs.IDMap {
	if i.Single {
		return []configs.IDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	}
	return []configs.IDMap{{ContainerID: 0, HostID: 1, Size: 65535}}
}

// agent is the id, in the shim's namespace, of the user that code runs as.
func (i IDs) agent() int {
	if i.Single {
		return 0
	}
	return agent + 1
}
