package reader

import (
	"reflect"
	"sync"
)

// A section of a file is a struct. Its fields with the tag yaml are the settings. These tags say more about a field:
//
//   - oneof has the words that it accepts. The value of a number is the position of its word; see noWord.
//   - unit is the unit of a number, and path says how the server uses a file that the setting names.
//   - form:"list" accepts no single value in place of a list.
//   - null, remedy and sequence are remedies for no value, for a value of the wrong type, and for a list in place of a mapping;
//     number begins the remedy for a number in place of a text.
//   - hint ends the remedy for a share.
//
// The struct of an embedded field has further settings of the section. These methods of a section, or of a value,
// change how it is read.

// Text is a value that is written as a text of its own form.
type Text interface {
	// Parse reads the text. The problem says what is wrong with it, and the suggestion what would be right.
	Parse(text string) (problem, suggestion string)
}

// Number is a Text that may also be written as a whole number.
type Number interface {
	// Number says what the value is, such as a status.
	Number() string
}

// Shorthand is a section that may also be written as a single value, which sets one setting.
type Shorthand interface {
	// Short returns the setting that takes a list, or that takes a single value; "" if none does.
	Short(list bool) string
}

// Single is Short for a setting that takes a single value only.
func Single(setting string, list bool) string {
	if list {
		return ""
	}
	return setting
}

// Switch is a section that may also be written as true or false. A mapping means true.
type Switch interface{ Switch() *bool }

// Worded is a section that may also be written as one of some texts.
type Worded interface {
	// Word reads the text. It returns false if the text is not one of them.
	Word(text string) (problem, suggestion string, ok bool)
}

// Written is a section with a short form for writing.
type Written interface {
	// Written returns the short form as YAML, or "" if the section needs its long form.
	Written() string
}

// Defaulter is a section of a list or behind a pointer that has defaults of its own.
type Defaulter interface{ SetDefaults() }

// Adviser is a section with remedies for settings that it does not have.
type Adviser interface {
	// Unknown returns the remedy for an unknown setting, or "". The text is its value, if it is a text.
	Unknown(name, text string) string
}

// Ignorer is a section that ignores some settings, with a warning.
type Ignorer interface {
	// Ignored returns the warning about a setting; the problem is "" for a setting that is not ignored.
	Ignored(name string) (problem, suggestion string)
}

// known has the fields of the sections that were read, by their types.
var known sync.Map

// Fields returns the settings of a section, among them the settings of embedded structs. The caller must not change them.
func Fields(t reflect.Type) []reflect.StructField {
	if all, ok := known.Load(t); ok {
		return all.([]reflect.StructField) //nolint:forcetypeassert // the map has nothing else
	}
	all, _ := known.LoadOrStore(t, fieldsOf(t))
	return all.([]reflect.StructField) //nolint:forcetypeassert // as above
}

func fieldsOf(t reflect.Type) (all []reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Tag.Get("yaml") != "":
			all = append(all, f)
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			for _, inner := range fieldsOf(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				all = append(all, inner)
			}
		}
	}
	return all
}

// Accepted returns the names of the settings of a section.
func Accepted(t reflect.Type) []string {
	fields := Fields(t)
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Tag.Get("yaml")
	}
	return names
}

// Differences returns the settings in which two sections of one type differ, such as "rules" or
// "listen.proxy.address", in the order of the documentation. Lists, and values that only one
// of the sections has, are compared as a whole. Both arguments are pointers.
func Differences(a, b any) []string {
	return differences("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func differences(path string, a, b reflect.Value) (all []string) {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if a.Kind() != reflect.Struct || IsValue(a.Type()) {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			all = append(all, path)
		}
		return all
	}
	for i := range a.NumField() {
		switch f := a.Type().Field(i); {
		case f.Tag.Get("yaml") != "":
			all = append(all, differences(Child(path, f.Tag.Get("yaml")), a.Field(i), b.Field(i))...)
		case f.Anonymous:
			all = append(all, differences(path, a.Field(i), b.Field(i))...)
		case f.IsExported() && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			all = append(all, path) // set by a short form, as tls: true
		}
	}
	return all
}
