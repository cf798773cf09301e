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
)

// YAML returns the file as text that Parse reads: the version, the settings that differ from their defaults, and the
// rules. Each setting of a rule has a line.
func (f *File) YAML() []byte {
	var b bytes.Buffer
	b.WriteString("version: 1\n")
	v, byDefault := reflect.ValueOf(f).Elem(), reflect.ValueOf(Default()).Elem()
	for i, name := range names(v.Type()) {
		if name == "" || name == "version" || name == "rules" || reflect.DeepEqual(v.Field(i).Interface(), byDefault.Field(i).Interface()) {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", name, flowOther(v.Field(i), byDefault.Field(i)))
	}
	if len(f.Rules) > 0 {
		b.WriteString("\nrules:\n")
	}
	for i := range f.Rules {
		r, dash := reflect.ValueOf(&f.Rules[i]).Elem(), "  - "
		for j, name := range names(r.Type()) {
			if !r.Field(j).IsZero() {
				fmt.Fprintf(&b, "%s%s: %s\n", dash, name, flow(r.Field(j)))
				dash = "    "
			}
		}
	}
	return b.Bytes()
}

// flowOther returns a value with the settings that differ from other ones.
func flowOther(v, other reflect.Value) string {
	if v.Kind() != reflect.Struct || readers[v.Type()] != nil || v.Type() == reflect.TypeFor[Listener]() {
		return flow(v)
	}
	var all []string
	for i, name := range names(v.Type()) {
		if name != "" && !reflect.DeepEqual(v.Field(i).Interface(), other.Field(i).Interface()) {
			all = append(all, name+": "+flowOther(v.Field(i), other.Field(i)))
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// flow returns a value on one line.
func flow(v reflect.Value) string {
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
	case netip.Prefix, Proxy, Share, Ratio, ByteRate, Size:
		return quoted(fmt.Sprint(x))
	case Metadata:
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
		if words := wordsOf[v.Type()]; words != nil {
			return words[v.Uint()]
		}
		return quoted(x.String())
	}
	switch v.Kind() {
	case reflect.Pointer:
		return flow(v.Elem())
	case reflect.Struct:
		var all []string
		for i, name := range names(v.Type()) {
			if name != "" && !v.Field(i).IsZero() {
				all = append(all, name+": "+flow(v.Field(i)))
			}
		}
		return "{" + strings.Join(all, ", ") + "}"
	case reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, flow(v.Index(i)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case reflect.Map:
		var all []string
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			all = append(all, quoted(key.String())+": "+flow(v.MapIndex(key)))
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
