package policyfile

import (
	"reflect"
	"slices"
	"strings"
)

// Locate adds the position in the file to each mistake in a setting, sorts the mistakes, and returns them as an Errors; nil if
// there are none. It is for mistakes that only the machine has, such as a certificate that is missing: their Path is the setting
// that names it. A mistake in something that is not a setting of the file, such as a flag, gets no position.
func (f *File) Locate(mistakes ...*Error) error {
	if len(mistakes) == 0 {
		return nil
	}
	s := f.blank()
	settings := accepted(reflect.TypeFor[File]())
	for _, m := range mistakes {
		top := m.Path
		if end := strings.IndexAny(top, ".["); end >= 0 {
			top = top[:end]
		}
		if m.File != "" || !slices.Contains(settings, top) {
			continue
		}
		m.File = s.name
		if !s.has(m.Path) { // a listener has a short form
			m.Path = strings.TrimSuffix(m.Path, ".address")
		}
		if s.has(top) {
			m.Pos = s.find(m.Path)
			m.Path, m.Source = s.given(m.Path), s.line(m.Pos.Line)
		}
	}
	es := Errors(mistakes)
	es.sort(s.name)
	return es
}
