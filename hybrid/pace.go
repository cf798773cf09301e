package hybrid

import (
	"math"

	"github.com/sluicehq/sluice/driver"
)

// pace spreads the claims of a process while the units of a key are short: while few are free, and
// all processes together request more than the limit gives. Each process then claims at its part of the limit's
// rate, in proportion to its demand. Otherwise the processes would fight for single units, and the
// process that claims most often would win. See docs/adr/0031.
type pace struct {
	rate  float64 // the part of this process, in units per nanosecond; zero: units are not short
	carry float64 // units of this part that it has not claimed yet
	last  int64   // the last claim, by the monotonic clock
	until int64   // no claim before; requests without units in hand are denied
}

// accrue returns the units that the process may claim now. A pause without requests adds no more than
// two long pauses do, or the units of two claims: a process with a small part of the rate claims less
// often than that.
func (p *pace) accrue(now, longest, least int64) int64 {
	p.carry += min(p.rate*float64(now-p.last), max(2*p.rate*float64(longest), float64(2*least)))
	p.last = now
	return max(0, int64(p.carry))
}

// follow sets the pace by an answer of the store, and returns how long no claim is to be made. What
// is free beyond the reserve is to be used within four pauses, and what is missing in the reserve is
// to come back within four. The reserve lets a process that has requested nothing so far
// have its first request decided at once.
func (p *pace) follow(v *terms, c *driver.Claim, g *driver.Grant, demand float64, now int64) (pause int64) {
	if c.Demand <= 0 || g.Demands <= 0 || float64(g.Free) > 2*v.reserve {
		*p = pace{}
		return 0
	}
	part := float64(c.Demand) / float64(max(c.Demand, g.Demands))
	rate := part * max(v.rate/4, v.rate+(float64(g.Free)-v.reserve)/float64(4*v.longest))
	if rate >= demand {
		*p = pace{}
		return 0
	}
	if p.rate == 0 {
		p.last, p.carry = now, 0
	} else {
		p.carry -= float64(g.Units)
		if c.Take > 0 && g.Decision.Allowed {
			p.carry -= float64(c.Take)
		}
	}
	p.rate = rate
	share := float64(v.escrow/int64(max(1, g.Holders))-g.Held) * 0.9
	wait := min(float64(v.longest), share/rate)
	wait = max(wait, (float64(max(1, c.Least, c.Take))-p.carry)/rate)
	return int64(max(0, min(wait, float64(longestDenial), math.MaxInt32)))
}
