package vectors

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// forever is a wait that no limit reaches.
const forever = time.Duration(math.MaxInt64)

// fields are the settings of a vector, or the arguments or the result of one of its steps.
type fields map[string]any

// num returns a number. A vector may write an infinite one as the text "inf".
func (f fields) num(name string, or float64) float64 {
	switch n := f[name].(type) {
	case float64:
		return n
	case string:
		if n, err := strconv.ParseFloat(n, 64); err == nil {
			return n
		}
	}
	return or
}

// count returns a whole number.
func (f fields) count(name string, or int64) int64 { return int64(f.num(name, float64(or))) }

// n returns the number of units that a step takes.
func (f fields) n() int64 { return f.count("n", 1) }

func (f fields) text(name string) string {
	s, _ := f[name].(string)
	return s
}

func (f fields) flag(name string, or bool) bool {
	if b, ok := f[name].(bool); ok {
		return b
	}
	return or
}

func (f fields) key() sluice.Key { return sluice.StringKey(f.text("key")) }

// object returns the fields of a nested object.
func (f fields) object(name string) fields {
	m, _ := f[name].(map[string]any)
	return m
}

// list returns the objects of a list.
func (f fields) list(name string) []fields {
	all, _ := f[name].([]any)
	out := make([]fields, 0, len(all))
	for _, a := range all {
		if m, ok := a.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// rate returns a rate, written as a text or as units per second.
func (f fields) rate(name string) (sluice.Rate, error) {
	if text := f.text(name); text != "" && text != "inf" {
		return parseRate(text)
	}
	return perSecond(f.num(name, 0)), nil
}

// parseRate reads "n/period", and nginx's "nr/period".
func parseRate(text string) (sluice.Rate, error) {
	return sluice.ParseRate(strings.Replace(text, "r/", "/", 1))
}

// perSecond returns the rate of n units per second. If n is not a rate, the result is one that
// NewLimit refuses.
func perSecond(n float64) sluice.Rate {
	num, den, ok := ratio(n)
	if !ok || den > int64(forever/time.Second) {
		return sluice.Rate{}
	}
	return sluice.Per(num, time.Duration(den)*time.Second)
}

// inSecond returns the units that a rate gives in one second.
func inSecond(r sluice.Rate) float64 { return float64(r.Count()) / r.Period().Seconds() }

// ratio returns the exact fraction of the number's shortest decimal form.
func ratio(n float64) (num, den int64, ok bool) {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(n, 'g', -1, 64))
	if !ok || !r.Num().IsInt64() || !r.Denom().IsInt64() {
		return 0, 1, false
	}
	return r.Num().Int64(), r.Denom().Int64(), true
}

// span returns n units of time, in whole microseconds.
func span(n float64, unit time.Duration) time.Duration {
	us := math.Round(n * float64(unit/time.Microsecond))
	if math.Abs(us) > float64(math.MaxInt64/1000) {
		return time.Duration(math.Copysign(float64(1<<62), us))
	}
	return time.Duration(us) * time.Microsecond
}

// up divides a duration and rounds up.
func up(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
