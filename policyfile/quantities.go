package policyfile

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluicehq/sluice"
)

// Size is a number of bytes, written as a number or with a unit: 512B, 64KiB,
// 64MiB, 1GiB, or kB, MB and GB for powers of a thousand.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
	{"", 1},
}

// Int returns the size as an int. On processors of 32 bits, it is the largest int for sizes beyond that.
func (z Size) Int() int { return int(min(z, math.MaxInt)) }

// ParseSize reads a size.
func ParseSize(text string) (Size, bool) {
	digits := strings.TrimRight(text, "BGKMik")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false
	}
	for _, u := range sizeUnits {
		if text[len(digits):] == u.name {
			return Size(n) * Size(u.bytes), int64(n) <= math.MaxInt64/u.bytes
		}
	}
	return 0, false
}

// String returns the size in the largest unit of which it is a whole number.
func (z Size) String() string {
	for _, u := range sizeUnits {
		if z != 0 && int64(z)%u.bytes == 0 && u.bytes&(u.bytes-1) == 0 {
			return strconv.FormatInt(int64(z)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

func readSize(d *decoder, path string, n ast.Node, v reflect.Value) {
	text := n.GetToken().Value
	if _, ok := n.(*ast.IntegerNode); !ok {
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	s, ok := ParseSize(text)
	if !ok {
		d.report(path, fmt.Sprintf("%s is not a size", quote(text)), "write it as in 4096, 64KiB, 16MiB or 1GiB")
		return
	}
	v.SetInt(int64(s))
}

// Share is a part of the whole, Of/Parts in lowest terms, more than zero and up to
// one. It is written 1/4, 25% or 0.25. The zero Share is none.
type Share struct {
	Of, Parts int64
}

// maxParts bounds the parts of a share.
const maxParts = 1_000_000

// String returns the share as a fraction, such as 1/4.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Of, s.Parts) }

// ParseShare reads a share. The problem says what is wrong with the text. It is
// empty if the text is a share.
func ParseShare(text string) (s Share, problem string) {
	const longest = 32 // a number may be written with an exponent of its own
	number, percent := strings.CutSuffix(text, "%")
	r := new(big.Rat)
	if len(text) > longest || strings.ContainsAny(number, "eEpPxXoObB_+ ") || percent && strings.Contains(number, "/") {
		return s, "is not a share"
	}
	if _, ok := r.SetString(number); !ok {
		return s, "is not a share"
	}
	if percent {
		r.Quo(r, big.NewRat(100, 1))
	}
	switch {
	case r.Sign() <= 0:
		return s, "is 0 or less"
	case r.Cmp(big.NewRat(1, 1)) > 0:
		return s, "is more than the whole"
	case r.Denom().Cmp(big.NewInt(maxParts)) > 0:
		return s, fmt.Sprintf("has more than %d parts", maxParts)
	}
	return Share{r.Num().Int64(), r.Denom().Int64()}, ""
}

func readShare(d *decoder, path string, n ast.Node, v reflect.Value) {
	var text string
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text = n.GetToken().Value
	default:
		var ok bool
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	s, problem := ParseShare(text)
	if problem != "" {
		remedy := "write it as in 1/4, 25% or 0.25"
		if strings.HasPrefix(path, "store.") {
			remedy += ": one of four servers has 1/4"
		}
		d.report(path, quote(text)+" "+problem, remedy)
		return
	}
	v.Set(reflect.ValueOf(s))
}

// Portion is a number of units, or a share of what a limit gives at once: 100, 50% or 1/2. The zero Portion
// has 0 units.
type Portion struct {
	Units int64
	Share Share
}

// of returns the units of a portion of a capacity, rounded down.
func (p Portion) of(capacity int64) int64 {
	if p.Share.Parts <= 0 {
		return p.Units
	}
	hi, lo := bits.Mul64(uint64(capacity), uint64(p.Share.Of))
	n, _ := bits.Div64(hi, lo, uint64(p.Share.Parts)) // a share is at most the whole
	return int64(n)
}

// ParsePortion reads a portion. The problem says what is wrong with the text. It is empty if the text is a
// portion.
func ParsePortion(text string) (p Portion, problem string) {
	if strings.ContainsAny(text, "%/") {
		p.Share, problem = ParseShare(text)
		return p, problem
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return p, "is neither a number of units nor a share"
	}
	return Portion{Units: int64(n)}, ""
}

func readPortion(d *decoder, path string, n ast.Node, v reflect.Value) {
	text := n.GetToken().Value
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
	default:
		var ok bool
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	p, problem := ParsePortion(text)
	if problem != "" {
		d.report(path, quote(text)+" "+problem, "write units as in 100, or a share of the limit as in 50% or 1/2")
		return
	}
	v.Set(reflect.ValueOf(p))
}

// Ratio is a number of 0 or more, written 0.9, 1.5 or 90%. A ratio above 10 needs its percent
// sign, because 90 usually means nine tenths.
type Ratio float64

// mostPlain is the largest ratio that may be written without a percent sign.
const mostPlain = 10

var ratios = regexp.MustCompile(`^\d{1,6}(\.\d{1,6})?%?$`)

// ParseRatio reads a ratio. The problem says what is wrong with the text, and the suggestion what would be
// right. Both are empty if the text is a ratio.
func ParseRatio(text string) (r Ratio, problem, suggestion string) {
	if !ratios.MatchString(text) {
		return 0, "is not a ratio", "write it as in 0.9, 1.5 or 90%"
	}
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	switch r = Ratio(x); {
	case err != nil: // the pattern excludes it
		return 0, "is not a ratio", ""
	case r > mostPlain && !percent:
		return 0, "means " + decimal(r*100) + "%", "write " + decimal(r) + "% or " + decimal(r/100)
	}
	return r, "", ""
}

func readRatio(d *decoder, path string, n ast.Node, v reflect.Value) {
	text := n.GetToken().Value
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
	default:
		var ok bool
		if text, ok = d.text(path, n); !ok {
			return
		}
	}
	x, problem, suggestion := ParseRatio(text)
	if problem != "" {
		d.report(path, quote(text)+" "+problem, suggestion)
		return
	}
	v.SetFloat(float64(x))
}

// decimal writes a ratio without the rounding error of a division by a hundred.
func decimal(r Ratio) string { return strconv.FormatFloat(float64(r), 'g', 14, 64) }

// String returns the ratio as a number.
func (r Ratio) String() string { return fmt.Sprint(float64(r)) }

// ByteRate is a number of bytes per period: 1MB/s, 64KiB/s, 10GB/h.
type ByteRate sluice.Rate

// String returns the rate in bytes.
func (r ByteRate) String() string { return sluice.Rate(r).String() }

var bitRate = regexp.MustCompile(`(?i)bits?\b|bps$`)

// ParseByteRate reads a rate of bytes. The problem says what is wrong with the text. It
// is empty if the text is a rate.
func ParseByteRate(text string) (r ByteRate, problem string) {
	size, period, found := strings.Cut(text, "/")
	if !found {
		return r, "has no period"
	}
	bytes, ok := ParseSize(size)
	if !ok || bytes < 1 {
		return r, "needs a size of 1 byte or more before the slash"
	}
	rate, err := sluice.ParseRate("1/" + period)
	if err != nil || period == "" {
		return r, "needs a period of s, m, h, d or w after the slash"
	}
	return ByteRate(sluice.Per(int64(bytes), rate.Period())), ""
}

func readByteRate(d *decoder, path string, n ast.Node, v reflect.Value) {
	if i, ok := n.(*ast.IntegerNode); ok {
		text := quoteless(i.GetToken().Value)
		d.report(path, text+" has no period", "write "+text+"B/s for bytes a second")
		return
	}
	text, ok := d.text(path, n)
	if !ok {
		return
	}
	r, problem := ParseByteRate(text)
	if problem != "" {
		suggestion := "write it as in 1MB/s, 64KiB/s or 10GB/h"
		if bitRate.MatchString(text) {
			suggestion = "give bytes, an eighth of the bits, as in 1MB/s for 8 Mbit/s"
		}
		d.report(path, quote(text)+" "+problem, suggestion)
		return
	}
	v.Set(reflect.ValueOf(r))
}
