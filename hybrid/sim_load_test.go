package hybrid

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sluicehq/sluice"
)

// load is how the requests of all processes arrive.
type load struct {
	shape  shape
	total  float64 // requests per second of all processes, while the load is even
	period time.Duration
	zipf   float64
}

type shape uint8

const (
	poisson    shape = iota // all processes alike
	skewed                  // by Zipf's law
	moving                  // one process has most of it, and which one changes
	hoarding                // little, so that processes hoard, then all at once
	boundaries              // bursts around the ends of the limit's periods
	shapes
)

func (l load) String() string {
	name := [...]string{"an even load", "a skewed load", "a hot process that moves", "hoarding and bursts", "bursts at boundaries"}[l.shape]
	return fmt.Sprintf("%s of %.0f/s, in periods of %v", name, l.total, l.period)
}

// newLoad makes up a load: from half of the limit to four times the limit.
func newLoad(c *rand.Rand, l *sluice.Limit, nodes int) load {
	r := l.Rate()
	perSecond := float64(r.Count()) / r.Period().Seconds()
	if r.Period() >= time.Hour {
		perSecond = float64(r.Count())
	}
	a := load{
		shape: shape(c.IntN(int(shapes))), total: perSecond * one(c, 0.5, 1.2, 2.0, 4.0),
		period: one(c, 50*time.Millisecond, 200*time.Millisecond, 700*time.Millisecond), zipf: 1 + c.Float64(),
	}
	if a.shape == boundaries && r.Period() < time.Hour {
		a.period = r.Period()
	}
	a.total = min(a.total, 600)
	return a
}

// rate returns how many requests per second a process gets at a time.
func (l load) rate(node, nodes int, at time.Duration) float64 {
	even := l.total / float64(nodes)
	phase := float64(at%l.period) / float64(l.period)
	switch l.shape {
	case skewed:
		sum := 0.0
		for i := range nodes {
			sum += math.Pow(float64(i+1), -l.zipf)
		}
		return l.total * math.Pow(float64(node+1), -l.zipf) / sum
	case moving:
		if int(at/l.period)%nodes == node {
			return l.total
		}
		return even / 10
	case hoarding:
		if phase < 0.7 {
			return even / 2
		}
		return 3 * even
	case boundaries:
		if phase < 0.1 || phase > 0.9 {
			return 5 * even
		}
		return even / 10
	}
	return even
}

// next returns the time until the next request, by the load as it is now. If that is long, it returns false and
// when to look again.
func (l load) next(c *rand.Rand, node, nodes int, at time.Duration) (time.Duration, bool) {
	d := time.Duration(c.ExpFloat64()/l.rate(node, nodes, at)*float64(time.Second)) + time.Duration(1+c.IntN(1000))
	if soon := l.period / 8; d > soon {
		return soon, false
	}
	return d, true
}
