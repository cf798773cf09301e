package rules

import (
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// whole is a file with rules only. It ignores some settings of the server, which change what rules may have.
type whole struct {
	Version int `yaml:"version"`
	File
}

func (*whole) Ignored(name string) (problem, suggestion string) {
	if slices.Contains(strings.Fields("store upstream trusted_proxies listen"), name) {
		return "is ignored", ""
	}
	return "", ""
}

func (w *whole) Check(s *reader.Source) {
	CheckVersion(s, w.Version)
	w.File.Check(s)
}

// parse reads a file.
func parse(name string, data []byte) (*whole, error) {
	w := &whole{File: Default()}
	return w, Parse(name, data, w)
}
