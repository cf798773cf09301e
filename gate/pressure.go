package gate

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// pressures knows the demand for the limits of rules, by the rules' names, which outlive
// changes of a policy.
type pressures struct {
	window time.Duration
	share  float64
	start  time.Time

	rules sync.Map // string → *rulePressure
	mu    sync.Mutex
	count int
	sweep int // at how many rules those are forgotten that nobody meets any more
}

// leastSweep is how many rules are kept before any is forgotten.
const leastSweep = 1024

func (p *pressures) init(window time.Duration, share float64) {
	p.window, p.share, p.start, p.sweep = window, share, time.Now(), leastSweep
}

// now is the time that pressure is measured in; never zero.
func (p *pressures) now() time.Duration { return time.Since(p.start) + 1 }

// rulePressure are the gauges of a rule's limits.
type rulePressure struct {
	mu     sync.Mutex
	gauges atomic.Pointer[[]*gauge]
}

// observe tells of a request to a limit.
func (p *pressures) observe(m *policy.LimitResult, now time.Duration, decided bool) {
	if m.Request.Cost <= 0 || m.Request.Peek {
		return
	}
	capacity := capacityOf(m.Request.Limit)
	if capacity.units <= 0 || capacity.inFlight && !decided {
		return
	}
	window := max(p.window, capacity.fill)
	g := p.gauge(m, window, now)
	if capacity.inFlight {
		wanted := m.Request.Limit.Capacity() - m.Request.Floor - m.Decision.Remaining
		if m.Request.MaxWait == sluice.NoWait {
			wanted = int64(capacity.units) - m.Request.Floor - m.Decision.Remaining
		}
		if !m.Decision.Allowed {
			wanted += m.Request.Cost
		}
		g.add(now, float64(max(0, wanted))/capacity.units)
		return
	}
	g.add(now, float64(m.Request.Cost)/(capacity.units*float64(g.window)/float64(capacity.period)))
	if m.Rule != nil && !isShared(m.Rule) {
		g.meet(now, m.Request.Key)
	}
}

// gauge returns the gauge of a limit.
func (p *pressures) gauge(m *policy.LimitResult, window, now time.Duration) *gauge {
	var r *rulePressure
	if known, ok := p.rules.Load(m.Rule.Name); ok {
		r = known.(*rulePressure)
	} else {
		r = p.add(m.Rule.Name, now)
	}
	name := m.Request.Limit.Name()
	for _, g := range *r.gauges.Load() {
		if g.limit == name && (g.window == window || m.Override) {
			return g
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Those of a limit whose window has changed, or that is gone, give way.
	gauges := make([]*gauge, 0, 1+len(*r.gauges.Load()))
	for _, g := range *r.gauges.Load() {
		if g.limit == name && (g.window == window || m.Override) {
			return g
		}
		if g.limit != name && !g.isIdle(now) {
			gauges = append(gauges, g)
		}
	}
	g := &gauge{limit: name, window: window, mean: m.Request.Limit.IsConcurrency()}
	gauges = append(gauges, g)
	r.gauges.Store(&gauges)
	return g
}

// add makes room for a rule, and forgets those that nobody has met for long when there are many.
func (p *pressures) add(rule string, now time.Duration) *rulePressure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.rules.Load(rule); ok {
		return known.(*rulePressure)
	}
	if p.count >= p.sweep {
		p.rules.Range(func(name, r any) bool {
			for _, g := range *r.(*rulePressure).gauges.Load() {
				if !g.isIdle(now) {
					return true
				}
			}
			p.rules.Delete(name)
			p.count--
			return true
		})
		p.sweep = max(leastSweep, 2*p.count)
	}
	r := &rulePressure{}
	r.gauges.Store(new([]*gauge))
	p.rules.Store(rule, r)
	p.count++
	return r
}

// of returns the pressure of a rule.
func (p *pressures) of(rule string) float64 {
	r, ok := p.rules.Load(rule)
	if !ok {
		return 0
	}
	now, most := p.now(), 0.0
	for _, g := range *r.(*rulePressure).gauges.Load() {
		pressure := g.read(now)
		if !g.mean {
			pressure /= p.share // what is in flight is known of all processes
		}
		most = max(most, pressure)
	}
	return most
}

// capacity is what a limit gives.
type capacity struct {
	units    float64       // a period, or in flight
	period   time.Duration // zero for what is in flight
	fill     time.Duration // in which it gives all that it can hold
	inFlight bool
}

func capacityOf(l *sluice.Limit) capacity {
	if c, ok := l.Algorithm().(sluice.Concurrency); ok {
		return capacity{units: float64(c.Max), inFlight: true}
	}
	r := l.Rate()
	return capacity{
		units: float64(r.Count()), period: r.Period(),
		fill: min(max(l.TimeToFull(), r.Period()), math.MaxInt64/4),
	}
}
