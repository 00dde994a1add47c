package doctor

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"cloche.dev/cloche/policy/human"
)

// maxFonts bounds the look for fonts, in names.
const maxFonts = 20_000

// chinese are the beginnings of names of font files that have the characters of
// Chinese, Japanese or Korean.
var chinese = []string{
	"notosanscjk", "notoserifcjk", "notosanssc", "notosanstc", "notosansjp", "notosanskr", "sourcehan", "droidsansfallback",
	"wqy", "uming", "ukai", "simsun", "simhei", "msyh", "arphic", "bsmi", "gbsn", "gkai", "bkai",
	"ipa", "takao", "vl-gothic", "mplus", "nanum", "unbatang", "undotum", "baekmuk", "unifont",
}

// fonts looks for those that matplotlib finds in a sandbox, by their files.
func (h *Host) fonts() Finding {
	const name = "fonts"
	files, names, cjk := 0, 0, false
	for _, dir := range []string{"usr/share/fonts", "usr/local/share/fonts"} {
		_ = filepath.WalkDir(h.path(dir), func(_ string, d fs.DirEntry, err error) error {
			if names++; names > maxFonts {
				return fs.SkipAll
			}
			if err != nil {
				return fs.SkipDir // it is not there, or nobody may read it
			}
			file := strings.ToLower(d.Name())
			switch path.Ext(file) {
			case ".ttf", ".otf", ".ttc", ".otc":
			default:
				return nil
			}
			files++
			for _, c := range chinese {
				cjk = cjk || strings.HasPrefix(file, c)
			}
			return nil
		})
	}
	switch {
	case files == 0:
		return limited(name, "there are none below /usr/share/fonts: matplotlib has its own, other programs draw no text", h.install("fonts-dejavu-core", "fonts-noto-cjk"))
	case !cjk:
		return limited(name, human.Plural(int64(files), "font file")+", none for Chinese, Japanese or Korean: such labels of figures come out as boxes", h.install("fonts-noto-cjk"))
	}
	return good(name, human.Plural(int64(files), "font file")+", some for Chinese, Japanese or Korean")
}
