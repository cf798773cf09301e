package policyfile

import "reflect"

// Differences returns the settings in which two files differ, such as "rules" or
// "listen.proxy.address", in the order of the documentation. Lists, and values that only one
// of both has, are compared as a whole.
func Differences(a, b *File) []string {
	return differences("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func differences(path string, a, b reflect.Value) (all []string) {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if a.Kind() != reflect.Struct || readers[a.Type()] != nil {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			all = append(all, path)
		}
		return all
	}
	for i, name := range names(a.Type()) {
		switch {
		case name != "":
			all = append(all, differences(child(path, name), a.Field(i), b.Field(i))...)
		case a.Type().Field(i).IsExported() && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			all = append(all, path) // said by the form of its value, as tls: true
		}
	}
	return all
}
