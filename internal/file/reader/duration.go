package reader

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// ParseDuration parses a duration as files have it: as time.ParseDuration does, and also with whole days of 24 hours
// and whole weeks, as in 1d12h. The result is exact.
func ParseDuration(text string) (t time.Duration, ok bool) {
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	var sum time.Duration
	var others strings.Builder
	at := 0
	for _, found := range wholeDays.FindAllStringSubmatchIndex(rest, -1) {
		if found[0] > 0 && rest[found[0]-1] == '.' {
			return 0, false // of a fraction
		}
		others.WriteString(rest[at:found[0]])
		at = found[1]
		n, err := strconv.ParseInt(rest[found[2]:found[3]], 10, 64)
		unit := day
		if rest[at-1] == 'w' {
			unit = week
		}
		if err != nil || n > int64((maxDuration-sum)/unit) {
			return 0, false
		}
		sum += time.Duration(n) * unit
	}
	others.WriteString(rest[at:])
	if left := others.String(); left != "" || at == 0 {
		d, err := time.ParseDuration(left)
		if err != nil || strings.ContainsAny(left, "+-") || at > 0 && left == "0" || d > maxDuration-sum {
			return 0, false
		}
		sum += d
	}
	if negative {
		sum = -sum
	}
	return sum, true
}

const maxDuration = time.Duration(1<<63 - 1)

var wholeDays = regexp.MustCompile(`(\d+)[dw]`)
