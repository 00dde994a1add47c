package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is copied out of the host's /etc.
const (
	maxFileBytes  = 8 << 20
	maxTotalBytes = 32 << 20
)

// fromHost are the parts of /etc that programs of /usr need: where libraries
// and alternatives are, certificates, fonts, types, time. Patterns as of
// filepath.Match, below /etc.
var fromHost = []string{
	"alternatives", "debian_version", "fonts", "ImageMagick-*", "java-*", "ld.so.cache", "ld.so.conf",
	"ld.so.conf.d", "localtime", "lsb-release", "magic", "magic.mime", "mailcap", "matplotlibrc", "mime.types",
	"os-release", "papersize", "perl", "protocols", "python*", "services", "ssl/certs", "ssl/openssl.cnf",
	"terminfo", "texmf", "timezone",
}

// ofTheHost are names of files among them that tell the host's name: Debian
// makes a certificate for it.
var ofTheHost = []string{"ssl-cert-snakeoil.pem"}

// synthetic are the files of /etc that are the same in every sandbox.
var synthetic = map[string]string{
	"passwd":        "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/tmp/home:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"group":         "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
	"hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
	"hostname":      "sandbox\n",
	"host.conf":     "multi on\n",
	"resolv.conf":   "",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"shells":        "/bin/sh\n/bin/bash\n",
}

// etc makes /etc: ours first, then what is copied from the host's.
func (b *builder) etc() {
	for name, text := range synthetic {
		b.write("/etc/"+name, []byte(text), 0o644)
	}
	c := &copier{left: maxTotalBytes}
	for _, p := range fromHost {
		names, err := filepath.Glob("/etc/" + p)
		b.try(err)
		for _, name := range names {
			b.mkdir(filepath.Dir(name), 0o755)
			b.try(c.tree(name, b.in(name)))
		}
	}
	b.mkdir("/etc/ssl", 0o755)
}

// A copier copies trees of the host's /etc within a total of bytes.
type copier struct{ left int64 }

// tree copies what name is. What others may not read is left out, as is what is
// neither file, folder nor link, or too large.
func (c *copier) tree(name, to string) error {
	return filepath.WalkDir(name, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return skip(err)
		}
		info, err := d.Info()
		if err != nil {
			return skip(err)
		}
		dst := filepath.Join(to, strings.TrimPrefix(p, name))
		switch {
		case slices.Contains(ofTheHost, d.Name()):
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			return c.link(p, dst)
		case info.Mode().Perm()&0o004 == 0:
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(dst, 0o755)
		case d.Type().IsRegular() && info.Size() <= min(maxFileBytes, c.left):
			c.left -= info.Size()
			return c.file(p, dst, info.Size(), info.Mode().Perm()&0o111|0o444)
		}
		return nil
	})
}

// skip makes what vanished or may not be read an omission.
func skip(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// link copies a link that leads into /usr or stays in /etc; any other would
// lead nowhere, or tell of the host.
func (c *copier) link(p, dst string) error {
	target, err := os.Readlink(p)
	if err != nil {
		return skip(err)
	}
	abs := target
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(filepath.Dir(p), target)
	}
	if !strings.HasPrefix(filepath.Clean(abs)+"/", "/usr/") && !strings.HasPrefix(filepath.Clean(abs)+"/", "/etc/") {
		return nil
	}
	if slices.Contains(ofTheHost, filepath.Base(target)) {
		return nil
	}
	if err := os.Symlink(target, dst); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (c *copier) file(p, dst string, size int64, mode os.FileMode) (err error) {
	in, err := os.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return skip(err)
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil // ours goes first
	}
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err := io.Copy(out, io.LimitReader(in, size)); err != nil {
		return fmt.Errorf("copy %s: %w", p, err)
	}
	return nil
}
