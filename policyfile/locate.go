package policyfile

import (
	"reflect"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
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
	es.Sort(f.blank().Name)
	return es
}

// locate adds the position to a mistake in a setting, and returns the mistake.
func (f *File) locate(m *Error) *Error {
	s, top := f.blank(), m.Path
	if end := strings.IndexAny(top, ".["); end >= 0 {
		top = top[:end]
	}
	if m.File != "" || !s.Foreign && !slices.Contains(reader.Accepted(reflect.TypeFor[File]()), top) {
		return m
	}
	m.File = s.Name
	if !s.Has(m.Path) { // a listener has a short form
		m.Path = strings.TrimSuffix(m.Path, ".address")
	}
	if s.Has(top) {
		m.Pos = s.Find(m.Path)
		m.Path, m.Source = s.Given(m.Path), s.Line(m.Pos.Line)
	}
	return m
}
