package doctor

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/human"
	"cloche.dev/cloche/runtime/instance"
)

// configuration returns the policy too: the default one if there is no other.
func (h *Host) configuration() (Finding, config.Config) {
	const name = "configuration"
	policy := config.Default()
	path, err := config.Find(h.o.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(name, err.Error(), "cloche policy show > "+Quoted(h.o.Config)), policy
	}
	if err != nil { // the error says so too
		return missing(name, err.Error(), "cloche --config FILE doctor"), policy
	}
	read, err := config.Load(path)
	switch {
	case err != nil:
		return missing(name, err.Error(), "cloche policy check "+Quoted(path)), policy
	case path == "":
		return good(name, "no file; the defaults hold"), read
	}
	return good(name, path), read
}

// dataDirectory returns its path too, and a name in it, which is the caller's to
// close; nil if none can be had.
func (h *Host) dataDirectory() (Finding, string, *instance.Instance) {
	const name = "data directory"
	dir, err := instance.DataDir(h.o.DataDir, h.uid, h.env)
	if err != nil {
		return missing(name, err.Error(), "cloche --data-dir DIR doctor"), "", nil
	}
	own, err := instance.Open(dir, h.o.Sweep)
	if own == nil {
		return missing(name, err.Error(), h.usable(dir)), dir, nil
	}
	if err != nil {
		return limited(name, "what a server that died has left cannot be removed: "+err.Error(), h.asRoot(self()+" doctor")), dir, own
	}
	return good(name, dir), dir, own
}

// usable makes a data directory of dir.
func (h *Host) usable(dir string) string {
	var st unix.Stat_t
	switch err := unix.Stat(dir, &st); {
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return "mv " + Quoted(dir) + " " + Quoted(dir+".old")
	case err == nil && int(st.Uid) == h.uid:
		return "chmod 700 " + Quoted(dir)
	}
	return h.asRoot(fmt.Sprintf("install -d -m 700 -o %d %s", h.uid, Quoted(dir)))
}

// What is to stay free on the file system of the data directory.
const (
	freePercent = 5
	freeBytes   = 1e9
)

// fileSystems are the names of those that matter here (statfs(2)).
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2fc12fc1: "zfs",
	unix.F2FS_SUPER_MAGIC: "f2fs", unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb2",
	unix.CEPH_SUPER_MAGIC: "ceph", unix.AFS_SUPER_MAGIC: "afs", unix.CODA_SUPER_MAGIC: "coda", unix.V9FS_MAGIC: "9p",
	unix.FUSE_SUPER_MAGIC: "fuse",
}

// elsewhere are file systems whose files other machines may change, or whose
// answers a program gives: locks and renames are not what they are on a disk.
var elsewhere = map[string]bool{
	"nfs": true, "smb": true, "cifs": true, "smb2": true, "ceph": true, "afs": true, "coda": true, "9p": true, "fuse": true,
}

// disk tells of the file system of the data directory dir.
func (h *Host) disk(dir string) Finding {
	const name = "disk"
	var st unix.Statfs_t
	if err := h.statfs(dir, &st); err != nil {
		return beyond(name, Limited, fmt.Sprintf("its file system cannot be asked: %v", err), "the kernel does not tell what is wrong")
	}
	kind := fileSystems[st.Type]
	if kind == "" {
		kind = fmt.Sprintf("type %#x", st.Type)
	}
	free, all := clamped(st.Bavail, st.Bsize), clamped(st.Blocks, st.Bsize)
	files := "any number of files"
	if st.Files > 0 {
		files = human.Plural(clamped(st.Ffree, 1), "file")
	}
	detail := fmt.Sprintf("%s of %s free, room for %s, on %s", human.Bytes(free), human.Bytes(all), files, kind)
	if kind == "tmpfs" || kind == "ramfs" {
		detail += ": it is memory, and is lost when the machine stops"
	}
	move := "cloche --data-dir DIR doctor"
	switch {
	case elsewhere[kind]:
		return limited(name, detail+"; locks and renames may not hold there, so name a directory on a disk of this machine", move)
	case free < freeBytes || free < all/100*freePercent:
		return limited(name, detail+fmt.Sprintf("; less than %s or %d %% is left, and what fills it fails", human.Bytes(freeBytes), freePercent), move)
	case st.Files > 0 && st.Ffree < st.Files/100*freePercent:
		return limited(name, detail+fmt.Sprintf("; less than %d %% of its files are left, and then none can be made", freePercent), move)
	}
	return good(name, detail)
}

// clamped returns count times size, or the greatest number if that is greater.
func clamped(count uint64, size int64) int64 {
	const most = 1<<63 - 1
	if size <= 0 {
		return 0
	}
	if count > uint64(most)/uint64(size) {
		return most
	}
	return int64(count) * size
}
