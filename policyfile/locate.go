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
	es := make(Errors, 0, len(mistakes))
	for _, m := range mistakes {
		es = append(es, f.locate(m))
	}
	es.sort(f.blank().name)
	return es
}

// locate adds the position to a mistake in a setting, and returns the mistake.
func (f *File) locate(m *Error) *Error {
	s, top := f.blank(), m.Path
	if end := strings.IndexAny(top, ".["); end >= 0 {
		top = top[:end]
	}
	if m.File != "" || !s.foreign && !slices.Contains(accepted(reflect.TypeFor[File]()), top) {
		return m
	}
	m.File = s.name
	if !s.has(m.Path) { // a listener has a short form
		m.Path = strings.TrimSuffix(m.Path, ".address")
	}
	if s.has(top) {
		m.Pos = s.find(m.Path)
		m.Path, m.Source = s.given(m.Path), s.line(m.Pos.Line)
	}
	return m
}
