package reader

import (
	"reflect"
	"strconv"
)

// Paths visits the settings with the tag path, and calls visit with the setting, the tag and the value. The argument is
// a pointer to a section.
func Paths(section any, visit func(setting, use, path string)) {
	walk("", reflect.ValueOf(section), visit)
}

func walk(path string, v reflect.Value, visit func(setting, use, path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(path, v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(path+"["+strconv.Itoa(i)+"]", v.Index(i), visit)
		}
	case reflect.Struct:
		for _, f := range Fields(v.Type()) {
			at, field := Child(path, f.Tag.Get("yaml")), v.FieldByIndex(f.Index)
			if use := f.Tag.Get("path"); use != "" {
				visit(at, use, field.String())
			} else {
				walk(at, field, visit)
			}
		}
	default: // it has no fields
	}
}
