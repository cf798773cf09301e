package sluice

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Rate is a count of units per period of time, such as 100 per minute. It is an exact
// rational number. Every limit refuses the zero Rate.
// A Rate is a value, safe for concurrent use.
type Rate struct {
	count  int64
	period time.Duration
}

// maxPeriod bounds the period of a rate.
const maxPeriod = 100 * 365 * 24 * time.Hour

// Package time has no day, because of daylight saving; a rate counts days of 24 hours.
const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Per returns the rate of n units per period. NewLimit reports invalid numbers.
func Per(n int64, period time.Duration) Rate {
	if period%time.Microsecond != 0 && period > 0 && n > 0 && n < 1<<50 {
		// Sluice counts time in microseconds: n per d ns is 1000·n per d µs.
		count, ns := 1000*n, int64(period)
		g := gcd(count, ns)
		if ns/g <= int64(maxPeriod/time.Microsecond) {
			return Rate{count / g, time.Duration(ns/g) * time.Microsecond}
		}
	}
	return Rate{n, period}
}

// PerSecond returns the rate of n units per second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// PerMinute returns the rate of n units per minute.
func PerMinute(n int64) Rate { return Rate{n, time.Minute} }

// PerHour returns the rate of n units per hour.
func PerHour(n int64) Rate { return Rate{n, time.Hour} }

// PerDay returns the rate of n units per 24 hours.
func PerDay(n int64) Rate { return Rate{n, day} }

// Every returns the rate of one unit per interval.
func Every(interval time.Duration) Rate { return Per(1, interval) }

// ParseRate parses a rate written as count/period. The period is one of the units us, ms, s, m, h,
// d and w, or a number of them ("10/30s"). A number without a unit counts seconds ("100/300"). The
// error is a *RateError.
func ParseRate(text string) (Rate, error) {
	fail := func(problem string) (Rate, error) {
		return Rate{}, &RateError{Text: text, Problem: problem}
	}
	count, per, ok := strings.Cut(text, "/")
	if !ok {
		return fail("has no period")
	}
	n, err := parseCount(count)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fail("has a count that is too large before the slash")
	case err != nil || n < 1:
		return fail("needs a whole count of 1 or more before the slash")
	}
	digits := strings.TrimRight(per, "abcdefghijklmnopqrstuvwxyz")
	unit, known := map[string]time.Duration{
		"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "w": week, "": time.Second,
	}[per[len(digits):]]
	if !known || per == "" {
		return fail("needs a period of s, m, h, d or w after the slash")
	}
	times := int64(1)
	if digits != "" {
		if times, err = parseCount(digits); err != nil || times < 1 {
			return fail("needs a whole number before the unit of the period")
		}
	}
	if times > int64(maxPeriod/unit) {
		return fail("has a period longer than 100 years")
	}
	return Rate{n, time.Duration(times) * unit}, nil
}

// parseCount parses digits only: strconv.ParseInt would accept a sign.
func parseCount(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

// Count returns the number of units per period.
func (r Rate) Count() int64 { return r.count }

// Period returns the time in which the rate gives Count units.
func (r Rate) Period() time.Duration { return r.period }

// IsZero reports whether r is the zero Rate.
func (r Rate) IsZero() bool { return r == Rate{} }

// String returns the rate in the form that ParseRate accepts. It writes a period of less than
// a microsecond, which no limit accepts, as a time.Duration.
func (r Rate) String() string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{week, "w"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if r.period == u.unit {
			return fmt.Sprintf("%d/%s", r.count, u.name)
		}
		if r.period > u.unit && r.period%u.unit == 0 {
			return fmt.Sprintf("%d/%d%s", r.count, r.period/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d/%s", r.count, r.period)
}

// MarshalText returns the text of String, and never an error.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses a rate as ParseRate does, with the same errors.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// check returns why a limit cannot have the rate r, and how to correct it.
func (r Rate) check() (problem, remedy string) {
	switch {
	case r.IsZero():
		return "is missing", "give a count per period such as 100/m"
	case r.count < 1:
		return fmt.Sprintf("is %d units a period", r.count), "give 1 or more"
	case r.count > maxUnits:
		return fmt.Sprintf("is %d units a period", r.count), fmt.Sprintf("the most is %d", int64(maxUnits))
	case r.period <= 0:
		return fmt.Sprintf("has the period %v", r.period), "give one that is positive"
	case r.period > maxPeriod:
		return fmt.Sprintf("has a period of %v", r.period), "the longest is 100 years"
	case r.period%time.Microsecond != 0:
		return fmt.Sprintf("has a period of %v", r.period), "give whole microseconds"
	}
	return "", ""
}

// timeFor returns the time in which the rate gives so many units, rounded up, at most the longest
// time.Duration. It is zero for the zero Rate.
func (r Rate) timeFor(units int64) time.Duration {
	if r.IsZero() {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(r.period))
	if hi >= uint64(r.count) {
		return math.MaxInt64
	}
	d, rest := bits.Div64(hi, lo, uint64(r.count))
	if rest > 0 {
		d++
	}
	return time.Duration(min(d, math.MaxInt64))
}

func (r Rate) micros() int64 { return int64(r.period / time.Microsecond) }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
