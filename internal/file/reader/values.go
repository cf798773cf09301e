package reader

import (
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluicehq/sluice"
)

// form is how the values of a type are written.
type form struct {
	// set sets a value to what its text means.
	set func(v reflect.Value, text string) (problem, suggestion string)
	// numbers is true if a number needs no quotes.
	numbers bool
	// whole returns what is wrong with a whole number; nil for nothing.
	whole func(text string) (problem, suggestion string)
}

// forms are the forms of the types of values that are known here.
var forms = map[reflect.Type]form{
	reflect.TypeFor[time.Duration](): {set: setter(parseDuration), whole: func(text string) (problem, suggestion string) {
		if text == "0" {
			return "", ""
		}
		return "has no unit", fmt.Sprintf("write %ss for seconds, or with ms, m, h, d or w", strings.TrimPrefix(text, "-"))
	}},
	reflect.TypeFor[sluice.Rate](): {set: setter(parseRate), whole: func(text string) (problem, suggestion string) {
		return "has no period", fmt.Sprintf("write %[1]s/s, %[1]s/m, %[1]s/h or %[1]s/d", text)
	}},
	reflect.TypeFor[ByteRate](): {set: setter(parseByteRate), whole: func(text string) (problem, suggestion string) {
		return "has no period", "write " + text + "B/s for bytes a second"
	}},
	reflect.TypeFor[netip.Prefix](): {set: setter(ParsePrefix)},
	reflect.TypeFor[Size]():         {set: setter(parseSize), numbers: true},
	reflect.TypeFor[Share]():        {set: setter(parseShare), numbers: true},
	reflect.TypeFor[Portion]():      {set: setter(parsePortion), numbers: true},
	reflect.TypeFor[Ratio]():        {set: setter(ParseRatio), numbers: true},
}

// setter returns the function that sets a value to what its text means.
func setter[T any](parse func(string) (value T, problem, suggestion string)) func(reflect.Value, string) (problem, suggestion string) {
	return func(v reflect.Value, text string) (problem, suggestion string) {
		value, problem, suggestion := parse(text)
		if problem == "" {
			v.Set(reflect.ValueOf(value))
		}
		return problem, suggestion
	}
}

// formOf returns the form of a type that is written as a text or number.
func formOf(t reflect.Type) (f form, ok bool) {
	if f, ok = forms[t]; ok || t.Kind() != reflect.Struct || !reflect.PointerTo(t).Implements(reflect.TypeFor[Text]()) {
		return f, ok
	}
	f.numbers = reflect.PointerTo(t).Implements(reflect.TypeFor[Number]())
	f.set = func(v reflect.Value, text string) (problem, suggestion string) {
		return v.Addr().Interface().(Text).Parse(text) //nolint:forcetypeassert // see above
	}
	return f, true
}

// IsValue reports whether values of a type are written as one text or number, although they may be structs.
func IsValue(t reflect.Type) bool {
	_, ok := formOf(t)
	return ok
}

// Parse sets a value, or a whole number, to what its text means. The problem says what is wrong with the text.
func Parse(v reflect.Value, text string) (problem, suggestion string) {
	if f, ok := formOf(v.Type()); ok {
		return f.set(v, text)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return "is not a whole number of 0 or more", ""
	}
	v.SetInt(int64(n))
	return "", ""
}

// written reads a value that has a form.
func (d *decoder) written(at setting, n ast.Node, v reflect.Value, f form) {
	if number, ok := v.Addr().Interface().(Number); ok && isMapping(n) {
		d.wrong(at, n, number.Number())
		return
	}
	text := n.GetToken().Value
	_, whole := n.(*ast.IntegerNode)
	_, decimal := n.(*ast.FloatNode)
	switch {
	case whole && f.whole != nil:
		text = quoteless(text)
		if problem, suggestion := f.whole(text); problem != "" {
			d.Report(at.path, text+" "+problem, suggestion)
			return
		}
	case f.numbers && (whole || decimal):
	default:
		var ok bool
		if text, ok = d.text(at, n); !ok {
			return
		}
	}
	if problem, suggestion := f.set(v, text); problem != "" {
		d.Report(at.path, Quote(text)+" "+problem, suggestion+at.tag.Get("hint"))
	}
}

func parseDuration(text string) (t time.Duration, problem, suggestion string) {
	t, ok := ParseDuration(text)
	switch {
	case !ok:
		suggestion := "write it as in 500ms, 10s, 5m, 1h30m or 1d"
		if s := durationOf(text); s != "" {
			suggestion = fmt.Sprintf("write %s", s)
		}
		return 0, "is not a duration", suggestion
	case t < 0:
		return 0, "is negative", fmt.Sprintf("give %s or another time of 0s or more", strings.TrimPrefix(text, "-"))
	}
	return t, "", ""
}

var countUnit = regexp.MustCompile(`^\s*(\d{1,6})\s*([a-zA-Z]+)\s*$`)

// durationOf guesses what was meant by "10 seconds" or "1 day".
func durationOf(text string) string {
	m := countUnit.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	switch u := unitOf(m[2]); u {
	case "":
		return ""
	default:
		return m[1] + u
	}
}

// unitOf returns the unit that a word means, or "".
func unitOf(word string) string {
	for unit, words := range map[string][]string{
		"ms": {"ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"},
		"s":  {"s", "sec", "secs", "second", "seconds"},
		"m":  {"m", "min", "mins", "minute", "minutes"},
		"h":  {"h", "hr", "hrs", "hour", "hours"},
		"d":  {"d", "day", "days"},
		"w":  {"w", "wk", "week", "weeks"},
	} {
		for _, w := range words {
			if strings.EqualFold(w, word) {
				return unit
			}
		}
	}
	return ""
}

func parseRate(text string) (r sluice.Rate, problem, suggestion string) {
	r, err := sluice.ParseRate(text)
	if err == nil {
		return r, "", ""
	}
	problem = "is not a rate"
	if bad, ok := err.(*sluice.RateError); ok { //nolint:errorlint // ParseRate returns it as it is
		problem = bad.Problem
	}
	suggestion = "write it as in 100/m, 5/s or 10/30s"
	if s := rateOf(text); s != "" {
		suggestion = fmt.Sprintf("did you mean %s?", s)
		if strings.HasSuffix(s, "/30d") && longRate.MatchString(text) {
			suggestion += " For months of the calendar, add algorithm: fixed_window and calendar: month"
		}
	}
	return r, problem, suggestion
}

var looseRate = regexp.MustCompile(`^\s*([\d_,]{1,15})(\.\d{1,6})?\s*[a-zA-Z]*?\s*(?:/|per|every|in)\s*(\d{0,6})\s*([a-zA-Z]+)\s*$`)

var longRate = regexp.MustCompile(`(?i)^\s*(\d{1,15})\s*(?:/|per|a|every|in)\s*(?:a\s+|1\s*)?(month|mo|year|yr|y)s?\s*$`)

// rateOf guesses what was meant by "100/min", "5 per second" or "0.5/s".
func rateOf(text string) string {
	if m := longRate.FindStringSubmatch(text); m != nil {
		days := map[string]string{"month": "30d", "mo": "30d", "year": "365d", "yr": "365d", "y": "365d"}[strings.ToLower(m[2])]
		return m[1] + "/" + days
	}
	m := looseRate.FindStringSubmatch(text)
	if len(m) == 0 || unitOf(m[4]) == "" {
		return ""
	}
	count, ok := new(big.Rat).SetString(strings.NewReplacer("_", "", ",", "").Replace(m[1]) + m[2])
	if !ok || count.Sign() <= 0 {
		return ""
	}
	times := big.NewInt(1)
	if m[3] != "" {
		times.SetString(m[3], 10)
	}
	times.Mul(times, count.Denom())
	period := unitOf(m[4])
	if times.Cmp(big.NewInt(1)) != 0 {
		period = times.String() + period
	}
	guess := count.Num().String() + "/" + period
	if _, err := sluice.ParseRate(guess); err != nil {
		return ""
	}
	return guess
}

// ParsePrefix reads an address or a network. IPv4 networks mapped to IPv6 are
// read as the IPv4 networks they are.
func ParsePrefix(text string) (p netip.Prefix, problem, suggestion string) {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return p, "has a zone", "give the address without it"
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), "", ""
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, "is neither an address nor a network", "write it as in 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"
	}
	if p.Addr().Is4In6() {
		const mapped = 96
		if p.Bits() < mapped {
			suggestion := ""
			if p.Bits() <= 32 {
				suggestion = fmt.Sprintf("did you mean %q?", netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked())
			}
			return p, "is an IPv4 network mapped to IPv6 whose prefix is shorter than 96 bits: it holds addresses that are not IPv4", suggestion
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	if p != p.Masked() {
		return p, "has bits set behind its prefix", fmt.Sprintf("write %s for the network, or %s for the address", p.Masked(), p.Addr())
	}
	return p, "", ""
}
