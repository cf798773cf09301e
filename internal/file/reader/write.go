package reader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Write returns a section as text that Decode reads: the settings that differ from the defaults, each on one line. Each
// setting of an entry of the list named last has a line. Both sections are pointers to structs of one type.
func Write(section, defaults any, last string) []byte {
	var b bytes.Buffer
	v, byDefault := reflect.ValueOf(section).Elem(), reflect.ValueOf(defaults).Elem()
	for _, f := range Fields(v.Type()) {
		name, given, other := f.Tag.Get("yaml"), v.FieldByIndex(f.Index), byDefault.FieldByIndex(f.Index)
		switch {
		case name == last:
			writeEntries(&b, name, given)
		case !reflect.DeepEqual(given.Interface(), other.Interface()):
			fmt.Fprintf(&b, "%s: %s\n", name, flowOther(given, other, f.Tag))
		}
	}
	return b.Bytes()
}

// writeEntries writes a list of sections.
func writeEntries(b *bytes.Buffer, name string, list reflect.Value) {
	if list.Len() > 0 {
		fmt.Fprintf(b, "\n%s:\n", name)
	}
	for i := range list.Len() {
		entry, dash := list.Index(i), "  - "
		for _, f := range Fields(entry.Type()) {
			if given := entry.FieldByIndex(f.Index); !given.IsZero() {
				fmt.Fprintf(b, "%s%s: %s\n", dash, f.Tag.Get("yaml"), flow(given, f.Tag))
				dash = "    "
			}
		}
	}
}

// flowOther returns a value with the settings that differ from other ones.
func flowOther(v, other reflect.Value, tag reflect.StructTag) string {
	if _, written := v.Interface().(Written); written || v.Kind() != reflect.Struct || IsValue(v.Type()) {
		return flow(v, tag)
	}
	var all []string
	for _, f := range Fields(v.Type()) {
		given, other := v.FieldByIndex(f.Index), other.FieldByIndex(f.Index)
		if !reflect.DeepEqual(given.Interface(), other.Interface()) {
			all = append(all, f.Tag.Get("yaml")+": "+flowOther(given, other, f.Tag))
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// flow returns a value on one line.
func flow(v reflect.Value, tag reflect.StructTag) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return durationText(x)
	case sluice.Rate:
		return x.String()
	case Portion:
		if x.Share.Parts > 0 {
			return x.Share.String()
		}
		return strconv.FormatInt(x.Units, 10)
	case Anything:
		return flowAny(map[string]any(x))
	case Written:
		if text := x.Written(); text != "" {
			return text
		}
	case fmt.Stringer:
		if v.Kind() == reflect.Uint8 {
			return strings.Fields(tag.Get("oneof"))[v.Uint()]
		}
		return Scalar(x.String())
	}
	switch v.Kind() {
	case reflect.Pointer:
		return flow(v.Elem(), tag)
	case reflect.Struct:
		var all []string
		for _, f := range Fields(v.Type()) {
			if given := v.FieldByIndex(f.Index); !given.IsZero() {
				all = append(all, f.Tag.Get("yaml")+": "+flow(given, f.Tag))
			}
		}
		return "{" + strings.Join(all, ", ") + "}"
	case reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, flow(v.Index(i), ""))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case reflect.Map:
		var all []string
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			all = append(all, Scalar(key.String())+": "+flow(v.MapIndex(key), ""))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case reflect.String:
		return Scalar(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// flowAny returns a value of any kind on one line.
func flowAny(x any) string {
	switch x := x.(type) {
	case nil:
		return "null"
	case string:
		return Scalar(x)
	case map[string]any:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(x)) {
			all = append(all, Scalar(key)+": "+flowAny(x[key]))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case []any:
		var all []string
		for _, e := range x {
			all = append(all, flowAny(e))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(x)
}

// plainText matches texts that need no quotes, and yamlWords matches texts that YAML takes for something else.
var (
	plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$`)
	yamlWords = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n|inf|nan)$`)
)

// Scalar returns a text as YAML, in quotes if it needs them.
func Scalar(text string) string {
	if plainText.MatchString(text) && !yamlWords.MatchString(text) {
		return text
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text has a JSON form
	return strings.TrimSuffix(b.String(), "\n")
}

// durationText returns a duration without parts that are zero, as in 1h.
func durationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
