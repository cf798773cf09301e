package guard

import (
	"math/big"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// scaler makes the local versions of limits and keeps them: a store knows a limit
// by its pointer.
type scaler struct {
	share Share

	mu    sync.RWMutex
	cache map[scaleKey]*sluice.Limit
}

// scaleKey is a limit by value, so that limits which are made for each request find
// what was made for those before them.
type scaleKey struct {
	name      string
	algorithm sluice.Algorithm
}

// maxScaled is how many limits are kept. When there are more, all are made anew.
const maxScaled = 4096

// localName is the name of the local version of a limit. Names of rules hold no such byte.
func localName(l *sluice.Limit) string { return "guard\x00" + l.Name() }

// limit returns the local version of l.
func (s *scaler) limit(l *sluice.Limit) *sluice.Limit {
	key := scaleKey{l.Name(), l.Algorithm()}
	s.mu.RLock()
	scaled := s.cache[key]
	s.mu.RUnlock()
	if scaled != nil {
		return scaled
	}
	scaled = s.share.scale(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.cache[key]; first != nil {
		return first
	}
	if s.cache == nil || len(s.cache) >= maxScaled {
		s.cache = make(map[scaleKey]*sluice.Limit)
	}
	s.cache[key] = scaled
	return scaled
}

// floor returns the floor of a request in the terms of the local version of its
// limit. A floor that lets nothing pass stays one.
func (s *scaler) floor(l, scaled *sluice.Limit, floor int64) int64 {
	if floor == 0 || floor >= l.Capacity() {
		return floor
	}
	return min(s.share.units(floor), scaled.Capacity()-1)
}

// units returns a number of units scaled to the share, rounded down.
func (s Share) units(n int64) int64 {
	if n < 1<<32 {
		return n * s.Of / s.Parts // no more than 2⁵²
	}
	u := new(big.Int).Mul(big.NewInt(n), big.NewInt(s.Of))
	return u.Quo(u, big.NewInt(s.Parts)).Int64()
}

// some is units, one at least.
func (s Share) some(n int64) int64 { return max(1, s.units(n)) }

// scale returns the local version of a limit.
func (s Share) scale(l *sluice.Limit) *sluice.Limit {
	name := localName(l)
	if s.Of == s.Parts {
		return sluice.MustLimit(name, l.Algorithm()) // these numbers make a limit: l
	}
	for _, a := range s.algorithms(l.Algorithm()) {
		if scaled, err := sluice.NewLimit(name, a); err == nil {
			return scaled
		}
	}
	// No rate near enough can be counted. The law in scale_law_test.go finds no such limit.
	return sluice.MustLimit(name, sluice.FixedWindow{Rate: sluice.Per(1, longest)})
}

// The longest period of a rate.
const (
	longest       = 100 * 365 * 24 * time.Hour
	longestMicros = int64(longest / time.Microsecond)
)

// algorithms returns the scaled algorithm, and what comes near where its numbers
// cannot be counted.
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

// counted returns a rate of as many units in the same window.
func (s Share) counted(r sluice.Rate) sluice.Rate { return sluice.Per(s.some(r.Count()), r.Period()) }

// longer returns a time by as much longer as the share is smaller, in whole
// microseconds, rounded up.
func (s Share) longer(d time.Duration) time.Duration {
	us := new(big.Int).Mul(big.NewInt(int64(d/time.Microsecond)), big.NewInt(s.Parts))
	us.Add(us, big.NewInt(s.Of-1)).Quo(us, big.NewInt(s.Of))
	if !us.IsInt64() || us.Int64() > longestMicros {
		return longest
	}
	return time.Duration(us.Int64()) * time.Microsecond
}

// paced returns algorithms of the scaled rate, of which so many units must be
// countable: the exact one first, then those that are a little slower and surely are, of a count
// up to most.
func (s Share) paced(r sluice.Rate, units, most int64, with func(sluice.Rate) sluice.Algorithm) []sluice.Algorithm {
	count := new(big.Int).Mul(big.NewInt(r.Count()), big.NewInt(s.Of))
	period := new(big.Int).Mul(big.NewInt(int64(r.Period()/time.Microsecond)), big.NewInt(s.Parts))
	var all []sluice.Algorithm
	for _, rate := range below(count, period, units, most) {
		all = append(all, with(rate))
	}
	return all
}

// below returns rates near count per period microseconds, and no faster, unless the
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
	// One that is fast is near to so many units in the longest period of which the
	// units can be counted, whatever their number, and that number is one.
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
	// One that is slow is near to one unit in so many microseconds.
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
