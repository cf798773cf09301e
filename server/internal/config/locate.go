package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Locate adds the position in the file to each mistake in a setting, sorts the mistakes, and returns them as an Errors;
// nil if there are none. It is for mistakes that only the machine has, such as a certificate that is missing: their
// Path is the setting that names it. A mistake in something that is not a setting of the file, such as a flag, gets no
// position.
func (f *File) Locate(mistakes ...*reader.Error) error {
	if len(mistakes) == 0 {
		return nil
	}
	all, s := make(reader.Errors, len(mistakes)), f.Blank()
	for i, m := range mistakes {
		top := m.Path
		if end := strings.IndexAny(top, ".["); end >= 0 {
			top = top[:end]
		}
		if all[i] = m; m.File != "" || !slices.Contains(reader.Accepted(reflect.TypeFor[File]()), top) {
			continue
		}
		if !s.Has(m.Path) { // a listener has a short form
			m.Path = strings.TrimSuffix(m.Path, ".address")
		}
		all[i] = s.Locate(m)
	}
	all.Sort(s.Name)
	return all
}
