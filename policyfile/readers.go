package policyfile

import (
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// reader reads a value of one type.
type reader func(d *decoder, path string, n ast.Node, v reflect.Value)

// readers are the readers of types that are written as a text in their own form.
var readers = map[reflect.Type]reader{
	reflect.TypeFor[time.Duration]():      readDuration,
	reflect.TypeFor[sluice.Rate]():        readRate,
	reflect.TypeFor[netip.Prefix]():       readPrefix,
	reflect.TypeFor[Proxy]():              readProxy,
	reflect.TypeFor[Size]():               readSize,
	reflect.TypeFor[Share]():              readShare,
	reflect.TypeFor[Portion]():            readPortion,
	reflect.TypeFor[Ratio]():              readRatio,
	reflect.TypeFor[ByteRate]():           readByteRate,
	reflect.TypeFor[policy.StatusRange](): readStatus,
	reflect.TypeFor[policy.CostSource]():  readWord,
	reflect.TypeFor[policy.Action]():      readWord,
	reflect.TypeFor[policy.Missing]():     readWord,
	reflect.TypeFor[policy.Repeated]():    readWord,
	reflect.TypeFor[policy.Fallback]():    readWord,
}

// wordsOf holds, for each type that is written as a word, its words by their number. A number whose word is
// empty cannot be written.
var wordsOf = map[reflect.Type][]string{
	reflect.TypeFor[policy.CostSource](): {"", "constant", "header", "request_bytes", "response_bytes", "response_header"},
	reflect.TypeFor[policy.Action]():     {"allow", "", "", "deny"},
	reflect.TypeFor[policy.Missing]():    {"share", "skip", "deny"},
	reflect.TypeFor[policy.Repeated]():   {"deny", "first", "last", "share"},
	reflect.TypeFor[policy.Fallback]():   {"", "allow", "deny", "local"},
}

// readWord reads a word as its number.
func readWord(d *decoder, path string, n ast.Node, v reflect.Value) {
	text, ok := d.text(path, n)
	if !ok {
		return
	}
	var known []string
	for i, w := range wordsOf[v.Type()] {
		if w == text && w != "" {
			v.SetUint(uint64(i))
			return
		}
		if w != "" {
			known = append(known, w)
		}
	}
	d.report(path, fmt.Sprintf("%s is unknown", quote(text)), didYouMean(text, known))
}

// readText reads a value that is a text of some form.
func readText[T any](d *decoder, path string, n ast.Node, v reflect.Value, parse func(string) (value T, problem, suggestion string)) {
	text, ok := d.text(path, n)
	if !ok {
		return
	}
	value, problem, suggestion := parse(text)
	if problem != "" {
		d.report(path, quote(text)+" "+problem, suggestion)
		return
	}
	v.Set(reflect.ValueOf(value))
}

func readDuration(d *decoder, path string, n ast.Node, v reflect.Value) {
	if i, ok := n.(*ast.IntegerNode); ok {
		if text := i.GetToken().Value; text == "0" {
			v.SetInt(0)
		} else {
			d.report(path, fmt.Sprintf("%s has no unit", quoteless(text)), fmt.Sprintf("write %ss for seconds, or with ms, m, h, d or w", strings.TrimPrefix(quoteless(text), "-")))
		}
		return
	}
	readText(d, path, n, v, parseDuration)
}

func parseDuration(text string) (t time.Duration, problem, suggestion string) {
	t, err := ParseDuration(text)
	switch {
	case err != nil:
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

func readRate(d *decoder, path string, n ast.Node, v reflect.Value) {
	if i, ok := n.(*ast.IntegerNode); ok {
		text := quoteless(i.GetToken().Value)
		d.report(path, fmt.Sprintf("%s has no period", text), fmt.Sprintf("write %[1]s/s, %[1]s/m, %[1]s/h or %[1]s/d", text))
		return
	}
	readText(d, path, n, v, parseRate)
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

func readPrefix(d *decoder, path string, n ast.Node, v reflect.Value) {
	readText(d, path, n, v, parsePrefix)
}

func readProxy(d *decoder, path string, n ast.Node, v reflect.Value) {
	readText(d, path, n, v, parseProxy)
}

// parsePrefix reads an address or a network. IPv4 networks mapped to IPv6 are
// read as the IPv4 networks they are.
func parsePrefix(text string) (p netip.Prefix, problem, suggestion string) {
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
