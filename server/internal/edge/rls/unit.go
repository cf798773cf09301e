package rls

import (
	"math"
	"math/bits"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/sluicehq/sluice"
)

// unit is a unit of time of the protocol. Requests and answers number the units alike.
type unit = ratelimitpb.RateLimitResponse_RateLimit_Unit

const (
	second = ratelimitpb.RateLimitResponse_RateLimit_SECOND
	minute = ratelimitpb.RateLimitResponse_RateLimit_MINUTE
	hour   = ratelimitpb.RateLimitResponse_RateLimit_HOUR
	day    = ratelimitpb.RateLimitResponse_RateLimit_DAY
	week   = ratelimitpb.RateLimitResponse_RateLimit_WEEK
	month  = ratelimitpb.RateLimitResponse_RateLimit_MONTH
	year   = ratelimitpb.RateLimitResponse_RateLimit_YEAR
)

// mostPeriod is the longest period of a limit.
const mostPeriod = 100 * 365 * 24 * time.Hour

// periods are the lengths of the units.
var periods = [...]time.Duration{
	second: time.Second, minute: time.Minute, hour: time.Hour, day: 24 * time.Hour, week: 7 * 24 * time.Hour,
	month: 30 * 24 * time.Hour, year: 365 * 24 * time.Hour,
}

// shownLimit is a rate in the units of the protocol.
type shownLimit struct {
	count    uint32
	unit     unit
	multiple uint32 // 0 for one unit
}

// single has the periods of one unit. divisors has the units whose multiples make longer periods, without months and
// years: 60 days are not two months.
var (
	single   = [...]unit{second, minute, hour, day, week, month, year}
	divisors = [...]unit{week, day, hour, minute, second}
)

// show returns a rate in units: the same count and period if there are such units, otherwise the same rate over another
// period. A rate that no units can express is rounded down, so that the answer promises no client more than it gets.
func show(r sluice.Rate) shownLimit {
	count, period := r.Count(), r.Period()
	if count < 0 || period <= 0 {
		return shownLimit{}
	}
	if count <= math.MaxUint32 {
		for _, u := range single {
			if period == periods[u] {
				return shownLimit{count: uint32(count), unit: u}
			}
		}
		for _, u := range divisors {
			if length := periods[u]; period > length && period%length == 0 && period/length <= math.MaxUint32 {
				return shownLimit{count: uint32(count), unit: u, multiple: uint32(period / length)}
			}
		}
	}
	return showOther(uint64(count), uint64(period))
}

// showOther shows a rate whose period is not whole seconds, or whose count is too large, over the fewest seconds in
// which it gives whole units.
func showOther(count, period uint64) shownLimit {
	const nanos = uint64(time.Second)
	each, rest, ok := mulDiv(count, nanos, period)
	if !ok {
		return shownLimit{count: math.MaxUint32, unit: second}
	}
	seconds := period / gcd(rest, period) // the fewest that give whole units
	if units, _, ok := mulDiv(count, seconds*nanos, period); ok && rest > 0 && seconds <= math.MaxUint32/2 && units <= math.MaxUint32 {
		return shownLimit{count: uint32(units), unit: second, multiple: uint32(seconds)}
	}
	if each > 0 {
		return shownLimit{count: uint32(min(each, math.MaxUint32)), unit: second}
	}
	// Less than one unit a second: one unit in as many seconds, rounded up.
	return shownLimit{count: 1, unit: second, multiple: uint32((period + count*nanos - 1) / (count * nanos))}
}

// mulDiv returns a·b/d and the rest; false if the quotient is more than a uint64.
func mulDiv(a, b, d uint64) (quotient, rest uint64, ok bool) {
	high, low := bits.Mul64(a, b)
	if high >= d {
		return 0, 0, false
	}
	quotient, rest = bits.Div64(high, low, d)
	return quotient, rest, true
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
