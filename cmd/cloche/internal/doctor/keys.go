package doctor

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/runtime/rootfs"
)

// isKey says whether the file or folder at p looks like a key that a sandbox
// sees: where names that look so are covered, it sees none. A file that may as
// well be a certificate is looked into, if it stands alone: within a thing that
// was installed, keys are those of its tests.
func isKey(p string, d fs.DirEntry, alone, covered bool) bool {
	if path.Ext(d.Name()) == ".pem" && d.Type().IsRegular() {
		return alone && holdsKey(p)
	}
	return rootfs.KeyLike(d.Name()) && !covered
}

// holdsKey says whether a private key is near the beginning of a file.
func holdsKey(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return err == nil && bytes.Contains(text, []byte("PRIVATE KEY-----"))
}

// literal makes of a name the pattern that matches it alone.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// exposed tells of names that look like keys, and hides them.
func (h *Host) exposed(name, detail string, keys []string) Finding {
	detail += "; some look like keys: " + listed(keys)
	var patterns []string
	for _, k := range keys[:min(maxListed, len(keys))] {
		patterns = append(patterns, strconv.Quote(literal.Replace(k)))
	}
	hide := strings.Join(patterns, ", ")
	if file, err := config.Find(h.o.Config); err != nil || file != "" {
		return beyond(name, Limited, detail, "it is for you to edit: add "+hide+" to hide in [sandbox.host] of the configuration")
	}
	file := "~/.config/cloche/config.toml"
	if base := h.env("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		file = Quoted(filepath.Join(base, "cloche", "config.toml"))
	}
	if h.uid == 0 {
		file = "/etc/cloche/config.toml"
	}
	return limited(name, detail, "printf '%s\\n' '[sandbox.host]' "+Quoted("hide = ["+hide+"]")+" | install -D -m 600 /dev/stdin "+file)
}
