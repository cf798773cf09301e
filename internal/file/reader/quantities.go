package reader

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

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

// parseSize reads a size.
func parseSize(text string) (z Size, problem, suggestion string) {
	digits := strings.TrimRight(text, "BGKMik")
	n, err := strconv.ParseUint(digits, 10, 63)
	for _, u := range sizeUnits {
		if err == nil && text[len(digits):] == u.name && int64(n) <= math.MaxInt64/u.bytes {
			return Size(n) * Size(u.bytes), "", ""
		}
	}
	return 0, "is not a size", "write it as in 4096, 64KiB, 16MiB or 1GiB"
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

// Share is a part of the whole, Of/Parts in lowest terms, more than zero and up to
// one. It is written 1/4, 25% or 0.25. The zero Share is none.
type Share struct {
	Of, Parts int64
}

// maxParts bounds the parts of a share.
const maxParts = 1_000_000

// String returns the share as a fraction, such as 1/4.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Of, s.Parts) }

// parseShare reads a share.
func parseShare(text string) (s Share, problem, suggestion string) {
	s, problem = shareOf(text)
	return s, problem, "write it as in 1/4, 25% or 0.25"
}

// shareOf reads a share. The problem is empty if the text is a share.
func shareOf(text string) (s Share, problem string) {
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

// Portion is a number of units, or a share of what a limit gives at once: 100, 50% or 1/2. The zero Portion
// has 0 units.
type Portion struct {
	Units int64
	Share Share
}

// Of returns the units of a portion of a capacity, rounded down.
func (p Portion) Of(capacity int64) int64 {
	if p.Share.Parts <= 0 {
		return p.Units
	}
	hi, lo := bits.Mul64(uint64(capacity), uint64(p.Share.Of))
	n, _ := bits.Div64(hi, lo, uint64(p.Share.Parts)) // a share is at most the whole
	return int64(n)
}

// parsePortion reads a portion.
func parsePortion(text string) (p Portion, problem, suggestion string) {
	const example = "write units as in 100, or a share of the limit as in 50% or 1/2"
	if strings.ContainsAny(text, "%/") {
		p.Share, problem = shareOf(text)
		return p, problem, example
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return p, "is neither a number of units nor a share", example
	}
	return Portion{Units: int64(n)}, "", ""
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

// decimal writes a ratio without the rounding error of a division by a hundred.
func decimal(r Ratio) string { return strconv.FormatFloat(float64(r), 'g', 14, 64) }

// String returns the ratio as a number.
func (r Ratio) String() string { return fmt.Sprint(float64(r)) }

// ByteRate is a number of bytes per period: 1MB/s, 64KiB/s, 10GB/h.
type ByteRate sluice.Rate

// String returns the rate in bytes.
func (r ByteRate) String() string { return sluice.Rate(r).String() }

var bitRate = regexp.MustCompile(`(?i)bits?\b|bps$`)

// parseByteRate reads a rate of bytes.
func parseByteRate(text string) (r ByteRate, problem, suggestion string) {
	suggestion = "write it as in 1MB/s, 64KiB/s or 10GB/h"
	if bitRate.MatchString(text) {
		suggestion = "give bytes, an eighth of the bits, as in 1MB/s for 8 Mbit/s"
	}
	size, period, found := strings.Cut(text, "/")
	if !found {
		return r, "has no period", suggestion
	}
	bytes, problem, _ := parseSize(size)
	if problem != "" || bytes < 1 {
		return r, "needs a size of 1 byte or more before the slash", suggestion
	}
	rate, err := sluice.ParseRate("1/" + period)
	if err != nil || period == "" {
		return r, "needs a period of s, m, h, d or w after the slash", suggestion
	}
	return ByteRate(sluice.Per(int64(bytes), rate.Period())), "", ""
}
