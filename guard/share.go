package guard

import (
	"math/big"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// share scales the numbers of limits: see Options.Share.
type share sluice.Share

// scaler makes the local versions of limits, and keeps them because stores identify a limit
// by its pointer.
type scaler struct {
	mu    sync.RWMutex
	part  share
	cache map[scaleKey]*sluice.Limit // for that part
}

// set replaces the share.
func (s *scaler) set(part share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.part != part {
		s.part, s.cache = part, nil
	}
}

// scaleKey is a limit by value. So a limit that is made for each request finds the local
// version of an earlier, equal limit.
type scaleKey struct {
	name      string
	algorithm sluice.Algorithm
}

// maxScaled is how many limits are kept. When there are more, all are made again, and stores keep records of both while
// states refer to them. So it is more than what callers may bring at once.
const maxScaled = 1 << 16

// localName is the name of the local version of a limit. Names of rules contain no NUL.
func localName(l *sluice.Limit) string { return "guard\x00" + l.Name() }

// limit returns the local version of l.
func (s *scaler) limit(l *sluice.Limit) *sluice.Limit {
	key := scaleKey{l.Name(), l.Algorithm()}
	s.mu.RLock()
	scaled, part := s.cache[key], s.part
	s.mu.RUnlock()
	if scaled != nil {
		return scaled
	}
	scaled = part.scale(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if part != s.part {
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
	part := s.part
	s.mu.RUnlock()
	return min(part.units(floor), scaled.Capacity()-1)
}

// units returns a number of units scaled to the share, rounded down.
func (s share) units(n int64) int64 {
	if n < 1<<32 {
		return n * s.Of / s.Parts // no more than 2⁵²
	}
	u := new(big.Int).Mul(big.NewInt(n), big.NewInt(s.Of))
	return u.Quo(u, big.NewInt(s.Parts)).Int64()
}

// some returns units, but one at least.
func (s share) some(n int64) int64 { return max(1, s.units(n)) }

// scale returns the local version of a limit.
func (s share) scale(l *sluice.Limit) *sluice.Limit {
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
func (s share) algorithms(a sluice.Algorithm) []sluice.Algorithm {
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
func (s share) counted(r sluice.Rate) sluice.Rate { return sluice.Per(s.some(r.Count()), r.Period()) }

// longer returns a time divided by the share, in whole microseconds, rounded up.
func (s share) longer(d time.Duration) time.Duration {
	us := new(big.Int).Mul(big.NewInt(int64(d/time.Microsecond)), big.NewInt(s.Parts))
	us.Add(us, big.NewInt(s.Of-1)).Quo(us, big.NewInt(s.Of))
	if !us.IsInt64() || us.Int64() > longestMicros {
		return longest
	}
	return time.Duration(us.Int64()) * time.Microsecond
}

// paced returns algorithms of the scaled rate: the exact rate, and then slightly slower rates
// that can certainly count up to units. No rate has a count above most.
func (s share) paced(r sluice.Rate, units, most int64, with func(sluice.Rate) sluice.Algorithm) []sluice.Algorithm {
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
