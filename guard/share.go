package guard

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// Share is a part of a limit, Of/Parts: {1, 4} is a fourth. It is more than zero and at most
// one. The zero Share means the default.
//
// A share scales each number of a limit. Rates of buckets are exact, or the nearest lower rate
// that can be counted. A burst, a debt, the count of a window or log, and the maximum of a
// concurrency limit are rounded down, but never below one. Queues are rounded down, and may
// become zero. Minimum intervals grow as rates shrink, up to the period. Times do not change.
// The floor of a request is rounded down, and leaves at least one unit.
//
// So N processes with a share of 1/N admit at most the limit together, if each number is N or
// more. If a number is smaller than N, each process still has one unit: N in all. A leaky
// bucket lets one more unit depart at once in each process.
type Share struct {
	// Of and Parts are the share's numerator and denominator: Of parts of Parts, such as 1 and 4. Of is 1 to Parts, and
	// Parts up to 1,000,000.
	Of, Parts int64
}

// maxParts bounds the parts of a share.
const maxParts = 1_000_000

// ParseShare reads a share written as 1/4, 0.25 or 25%. The error shows the forms.
func ParseShare(text string) (Share, error) {
	number, percent := strings.CutSuffix(text, "%")
	r, ok := new(big.Rat), len(text) <= 32 && !strings.ContainsAny(text, "eEpPxX_")
	if ok {
		r, ok = r.SetString(number)
	}
	if !ok || percent && strings.Contains(number, "/") {
		return Share{}, fmt.Errorf("guard: share %q is not a number; write it as in 1/4, 0.25 or 25%%", text)
	}
	if percent {
		r.Mul(r, big.NewRat(1, 100))
	}
	if !r.Num().IsInt64() || !r.Denom().IsInt64() {
		return Share{}, fmt.Errorf("guard: share %q has too many digits; give up to six", text)
	}
	s := Share{r.Num().Int64(), r.Denom().Int64()}
	if err := s.check(); err != nil {
		return Share{}, fmt.Errorf("guard: share %w", err)
	}
	return s, nil
}

// String returns the share as ParseShare reads it.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Of, s.Parts) }

// MarshalText writes the share as String does, and never returns an error.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a share as ParseShare does, with the same errors.
func (s *Share) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShare(string(text))
	return err
}

// check returns an error if s is not a share.
func (s Share) check() error {
	if s.Of < 1 || s.Parts < s.Of || s.Parts > maxParts {
		return fmt.Errorf("is %v; give more than 0 and up to 1, of no more than %d parts", s, maxParts)
	}
	return nil
}

// scaler makes the local versions of limits, and keeps them because stores identify a limit
// by its pointer.
type scaler struct {
	mu    sync.RWMutex
	share Share
	cache map[scaleKey]*sluice.Limit // for that share
}

// set replaces the share.
func (s *scaler) set(share Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.share != share {
		s.share, s.cache = share, nil
	}
}

// scaleKey is a limit by value. So a limit that is made for each request finds the local
// version of an earlier, equal limit.
type scaleKey struct {
	name      string
	algorithm sluice.Algorithm
}

// maxScaled is how many limits are kept. When there are more, all are made again, and stores keep records of both while states
// refer to them. So it is more than what callers may bring at once.
const maxScaled = 1 << 16

// localName is the name of the local version of a limit. Names of rules contain no NUL.
func localName(l *sluice.Limit) string { return "guard\x00" + l.Name() }

// limit returns the local version of l.
func (s *scaler) limit(l *sluice.Limit) *sluice.Limit {
	key := scaleKey{l.Name(), l.Algorithm()}
	s.mu.RLock()
	scaled, share := s.cache[key], s.share
	s.mu.RUnlock()
	if scaled != nil {
		return scaled
	}
	scaled = share.scale(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if share != s.share {
		return scaled
	}
	if first := s.cache[key]; first != nil {
		return first
	}
	if s.cache == nil || len(s.cache) >= maxScaled {
		s.cache = make(map[scaleKey]*sluice.Limit)
	}
	s.cache[key] = scaled
	return scaled
}

// floor returns the floor of a request under the local version of its limit. A floor that
// admits nothing still admits nothing.
func (s *scaler) floor(l, scaled *sluice.Limit, floor int64) int64 {
	if floor == 0 || floor >= l.Capacity() {
		return floor
	}
	s.mu.RLock()
	share := s.share
	s.mu.RUnlock()
	return min(share.units(floor), scaled.Capacity()-1)
}

// units returns a number of units scaled to the share, rounded down.
func (s Share) units(n int64) int64 {
	if n < 1<<32 {
		return n * s.Of / s.Parts // no more than 2⁵²
	}
	u := new(big.Int).Mul(big.NewInt(n), big.NewInt(s.Of))
	return u.Quo(u, big.NewInt(s.Parts)).Int64()
}

// some returns units, but one at least.
func (s Share) some(n int64) int64 { return max(1, s.units(n)) }

// scale returns the local version of a limit.
func (s Share) scale(l *sluice.Limit) *sluice.Limit {
	name := localName(l)
	if s.Of == s.Parts {
		return sluice.MustLimit(name, l.Algorithm()) // l has these numbers, so they are valid
	}
	for _, a := range s.algorithms(l.Algorithm()) {
		if scaled, err := sluice.NewLimit(name, a); err == nil {
			return scaled
		}
	}
	// No near rate can be counted. The law in share_law_test.go finds no such limit.
	return sluice.MustLimit(name, sluice.FixedWindow{Rate: sluice.Per(1, longest)})
}

// The longest period of a rate.
const (
	longest       = 100 * 365 * 24 * time.Hour
	longestMicros = int64(longest / time.Microsecond)
)

// algorithms returns the scaled algorithm, and then similar ones in case its numbers cannot be
// counted.
func (s Share) algorithms(a sluice.Algorithm) []sluice.Algorithm {
	switch a := a.(type) {
	case sluice.TokenBucket:
		a.Burst, a.Debt = s.some(a.Burst), s.some(a.Debt)
		most := int64(algo.MaxCount)
		if a.WarmUp > 0 { // see algo.WarmFits
			most = min(most, algo.MaxTicks/(16*a.ColdFactor*(5+a.ColdFactor))/int64(a.WarmUp/time.Microsecond))
		}
		return s.paced(a.Rate, a.Burst+a.Debt, most, func(r sluice.Rate) sluice.Algorithm {
			a.Rate = r
			return a
		})
	case sluice.LeakyBucket:
		a.Queue, a.Undelayed = s.units(a.Queue), s.units(a.Undelayed)
		return s.paced(a.Rate, a.Queue+1, algo.MaxCount, func(r sluice.Rate) sluice.Algorithm {
			a.Rate = r
			return a
		})
	case sluice.FixedWindow:
		a.Rate = s.counted(a.Rate)
		return []sluice.Algorithm{a}
	case sluice.SlidingWindow:
		a.Rate = s.counted(a.Rate)
		return []sluice.Algorithm{a}
	case sluice.SlidingCounter:
		a.Rate = s.counted(a.Rate)
		return []sluice.Algorithm{a}
	case sluice.SlidingLog:
		a.Rate = s.counted(a.Rate)
		a.MinInterval = min(s.longer(a.MinInterval), a.Rate.Period())
		return []sluice.Algorithm{a}
	case sluice.Concurrency:
		a.Max, a.Queue = s.some(a.Max), s.units(a.Queue)
		return []sluice.Algorithm{a}
	default:
		return nil
	}
}

// counted returns the rate of a scaled count in the same window.
func (s Share) counted(r sluice.Rate) sluice.Rate { return sluice.Per(s.some(r.Count()), r.Period()) }

// longer returns a time divided by the share, in whole microseconds, rounded up.
func (s Share) longer(d time.Duration) time.Duration {
	us := new(big.Int).Mul(big.NewInt(int64(d/time.Microsecond)), big.NewInt(s.Parts))
	us.Add(us, big.NewInt(s.Of-1)).Quo(us, big.NewInt(s.Of))
	if !us.IsInt64() || us.Int64() > longestMicros {
		return longest
	}
	return time.Duration(us.Int64()) * time.Microsecond
}

// paced returns algorithms of the scaled rate: the exact rate, and then slightly slower rates
// that can certainly count up to units. No rate has a count above most.
func (s Share) paced(r sluice.Rate, units, most int64, with func(sluice.Rate) sluice.Algorithm) []sluice.Algorithm {
	count := new(big.Int).Mul(big.NewInt(r.Count()), big.NewInt(s.Of))
	period := new(big.Int).Mul(big.NewInt(int64(r.Period()/time.Microsecond)), big.NewInt(s.Parts))
	var all []sluice.Algorithm
	for _, rate := range below(count, period, units, most) {
		all = append(all, with(rate))
	}
	return all
}

// below returns rates near count per period microseconds. They are not faster, unless the
// longest period is too short for that.
func below(count, period *big.Int, units, most int64) []sluice.Rate {
	longest, one := big.NewInt(longestMicros), big.NewInt(1)
	var rates []sluice.Rate
	add := func(count, period *big.Int) {
		if count.Sign() > 0 && count.IsInt64() && period.Cmp(longest) <= 0 {
			rates = append(rates, sluice.Per(count.Int64(), time.Duration(period.Int64())*time.Microsecond))
		}
	}
	add(count, period)
	exact := new(big.Rat).SetFrac(count, period)
	add(exact.Num(), exact.Denom())
	// For a fast rate: this many units in a long period. The period is the longest in which up
	// to units can be counted.
	long := new(big.Int).Mul(big.NewInt(most), period)
	if long.Quo(long, count); long.Sign() == 0 {
		long = one
	}
	if bound := big.NewInt(min(algo.MaxTicks/units, longestMicros)); long.Cmp(bound) > 0 {
		long = bound
	}
	many := new(big.Int).Mul(count, long)
	if many.Quo(many, period); many.Cmp(big.NewInt(most)) > 0 {
		many.SetInt64(most)
	}
	// For a slow rate: one unit in this many microseconds.
	each := new(big.Int).Add(period, count)
	each.Sub(each, big.NewInt(1)).Quo(each, count)
	if each.Cmp(longest) > 0 {
		each = longest
	}
	if new(big.Int).Mul(many, each).Cmp(long) >= 0 { // many/long is no slower than 1/each
		add(many, long)
		add(one, each)
	} else {
		add(one, each)
		add(many, long)
	}
	return rates
}
