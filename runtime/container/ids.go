package container

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/opencontainers/runc/libcontainer/configs"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/sandbox"
)

// ids are those of the shim's own user namespace. Each sandbox gets a slice of
// them for its lifetime, so that what the kernel counts for each user (pages of
// pipes, descriptors in flight, watches of epoll) is counted for each sandbox.
type ids struct {
	// single: there is one, as when an ordinary user started the shim. All
	// sandboxes share it.
	single bool

	mu    sync.Mutex
	taken []bool // by slot; mu
}

// readIDs reads them from the kernel (user_namespaces(7)).
func readIDs() (*ids, error) {
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	total := int64(0)
	for s := bufio.NewScanner(io.LimitReader(f, 64<<10)); s.Scan(); {
		var inside, outside, size int64
		if _, err := fmt.Sscan(s.Text(), &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("read /proc/self/uid_map: %w", err)
		}
		total += size
	}
	return newIDs(total), nil
}

// newIDs divides total ids, the first of which is the shim's root: nothing in a
// sandbox ever is that.
func newIDs(total int64) *ids {
	slots := (total - 1) / sandbox.IDs
	return &ids{single: slots < 1, taken: make([]bool, max(slots, 0))}
}

// files is how many descriptors a process may have where this one may have most.
// Nobody may send one while more than his own limit are on their way for his
// user (unix(7)): where that is the server's too, the server is to have more.
func (i *ids) files(most uint64) uint64 {
	if i.single {
		return max(most/2, min(most, softFiles))
	}
	return most
}

// take returns a slice that no other sandbox has. Its release is to be called
// once, when nothing runs in the sandbox any more.
func (i *ids) take() (slice, func(), error) {
	if i.single {
		return slice{single: true}, func() {}, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	slot := slices.Index(i.taken, false)
	if slot < 0 {
		return slice{}, nil, fault.New(fault.Busy, "all user ids for sandboxes are in use; try again when some have ended")
	}
	i.taken[slot] = true
	release := func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.taken[slot] = false
	}
	return slice{first: 1 + slot*sandbox.IDs}, release, nil
}

// A slice is the ids that one sandbox has.
type slice struct {
	single bool
	first  int // its 0, as the shim's namespace calls it
}

// inside is the map of the sandbox's user namespace.
func (s slice) inside() []configs.IDMap {
	if s.single {
		return []configs.IDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	}
	return []configs.IDMap{{ContainerID: 0, HostID: int64(s.first), Size: sandbox.IDs}}
}

// line is the map as user_namespaces(7) writes it, "" for a single id, which a
// process can map to itself.
func (s slice) line() string {
	if s.single {
		return ""
	}
	return fmt.Sprintf("0 %d %d", s.first, sandbox.IDs)
}

// agent is the id, in the shim's namespace, of the user that code runs as.
func (s slice) agent() int {
	if s.single {
		return 0
	}
	return s.first + agent
}

// capabilities are those of the step, which with a single id makes one more
// user namespace: to map an id of ours there it needs CAP_SETFCAP
// (user_namespaces(7)). It gives up all before Python starts.
func (s slice) capabilities() *configs.Capabilities {
	if s.single {
		return &configs.Capabilities{
			Bounding:  []string{"CAP_SETFCAP"},
			Effective: []string{"CAP_SETFCAP"},
			Permitted: []string{"CAP_SETFCAP"},
		}
	}
	return &configs.Capabilities{}
}

// counts bound what the kernel counts for each user of a user namespace
// (namespaces(7), inotify(7)), as libcontainer sets it: without them one sandbox
// could take all that its owner on the host may have. No user namespace is made
// inside but that of the step, so none of another kind either.
func (s slice) counts() map[string]string {
	all := map[string]string{
		"user.max_inotify_instances": "16",
		"user.max_inotify_watches":   "8192",
		"user.max_user_namespaces":   "0",
	}
	if s.single {
		all["user.max_user_namespaces"] = "1"
	}
	return all
}
