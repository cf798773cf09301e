package policyfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
)

// YAML returns the file as text that Parse reads: the version, the settings that differ from their defaults, and the
// rules. Each setting of a rule has a line.
func (f *File) YAML() []byte {
	var b bytes.Buffer
	b.WriteString("version: 1\n")
	v, byDefault := reflect.ValueOf(f).Elem(), reflect.ValueOf(Default()).Elem()
	for _, f := range reader.Fields(v.Type()) {
		name, given := f.Tag.Get("yaml"), v.FieldByIndex(f.Index)
		other := byDefault.FieldByIndex(f.Index)
		if name == "version" || name == "rules" || reflect.DeepEqual(given.Interface(), other.Interface()) {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", name, flowOther(given, other, f.Tag))
	}
	if len(f.Rules) > 0 {
		b.WriteString("\nrules:\n")
	}
	for i := range f.Rules {
		r, dash := reflect.ValueOf(&f.Rules[i]).Elem(), "  - "
		for _, f := range reader.Fields(r.Type()) {
			if given := r.FieldByIndex(f.Index); !given.IsZero() {
				fmt.Fprintf(&b, "%s%s: %s\n", dash, f.Tag.Get("yaml"), flow(given, f.Tag))
				dash = "    "
			}
		}
	}
	return b.Bytes()
}

// flowOther returns a value with the settings that differ from other ones.
func flowOther(v, other reflect.Value, tag reflect.StructTag) string {
	if v.Kind() != reflect.Struct || reader.IsValue(v.Type()) || v.Type() == reflect.TypeFor[Listener]() {
		return flow(v, tag)
	}
	var all []string
	for _, f := range reader.Fields(v.Type()) {
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
	case reader.Portion:
		if x.Share.Parts > 0 {
			return x.Share.String()
		}
		return strconv.FormatInt(x.Units, 10)
	case netip.Prefix, Proxy, reader.Share, reader.Ratio, reader.ByteRate, reader.Size:
		return quoted(fmt.Sprint(x))
	case reader.Anything:
		return flowAny(map[string]any(x))
	case Listener:
		if x.Off() {
			return "off"
		}
		if x == (Listener{Address: x.Address}) {
			return quoted(x.Address)
		}
	case Hybrid:
		if x == (Hybrid{Enabled: true}) {
			return "true"
		}
	case RedisTLS:
		if x == (RedisTLS{Enabled: true}) {
			return "true"
		}
	case fmt.Stringer:
		if v.Kind() == reflect.Uint8 {
			return strings.Fields(tag.Get("oneof"))[v.Uint()]
		}
		return quoted(x.String())
	}
	switch v.Kind() {
	case reflect.Pointer:
		return flow(v.Elem(), tag)
	case reflect.Struct:
		var all []string
		for _, f := range reader.Fields(v.Type()) {
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
			all = append(all, quoted(key.String())+": "+flow(v.MapIndex(key), ""))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case reflect.String:
		return quoted(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// flowAny returns a value of any kind on one line.
func flowAny(x any) string {
	switch x := x.(type) {
	case nil:
		return "null"
	case string:
		return quoted(x)
	case map[string]any:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(x)) {
			all = append(all, quoted(key)+": "+flowAny(x[key]))
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

// quoted returns a text, in quotes if it needs them.
func quoted(text string) string {
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
