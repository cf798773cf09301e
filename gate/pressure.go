package gate

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// pressures are the gauges of all rules, by the rules' names. Gauges outlive changes of a policy.
type pressures struct {
	window time.Duration
	share  atomic.Uint64 // the bits of a float64
	clock  func() int64  // in microseconds; nil for the monotonic clock
	begin  int64         // the clock's time at the start
	start  time.Time

	rules sync.Map // string → *rulePressure
	mu    sync.Mutex
	count int
	sweep int // the number of rules at which idle rules are forgotten
}

// leastSweep is how many rules are kept before idle rules are forgotten.
const leastSweep = 1024

func (p *pressures) init(o *Options) {
	p.window, p.start, p.sweep = o.Window, time.Now(), leastSweep
	if p.clock = o.Clock; p.clock != nil {
		p.begin = p.clock()
	}
	p.setShare(o.Share)
}

func (p *pressures) setShare(s sluice.Share) {
	p.share.Store(math.Float64bits(float64(s.Of) / float64(s.Parts)))
}

// now returns the time since the epoch, never zero. So a replay of a server's log divides windows as the server did.
func (p *pressures) now() time.Duration {
	if p.clock != nil {
		return time.Duration(min(max(0, p.begin, p.clock()), math.MaxInt64/2000))*time.Microsecond + 1
	}
	return time.Duration(p.start.UnixNano()) + time.Since(p.start)
}

// rulePressure are the gauges of a rule's limits.
type rulePressure struct {
	mu     sync.Mutex
	gauges atomic.Pointer[[]*gauge]
}

// observe counts a request to a limit.
func (p *pressures) observe(r *policy.LimitResult, now time.Duration, decided bool) {
	if r.Request.Cost <= 0 || r.Request.Peek {
		return
	}
	capacity := capacityOf(r.Request.Limit)
	if capacity.units <= 0 || capacity.inFlight && (!decided || r.Decision.Degraded) { // what is in flight is not known
		return
	}
	window := max(p.window, capacity.fill)
	g := p.gauge(r, window, now)
	if capacity.inFlight {
		wanted := r.Request.Limit.Capacity() - r.Request.Floor - r.Decision.Remaining
		if r.Request.MaxWait == sluice.NoWait {
			wanted = int64(capacity.units) - r.Request.Floor - r.Decision.Remaining
		}
		if !r.Decision.Allowed {
			wanted += r.Request.Cost
		}
		g.add(now, float64(max(0, wanted))/capacity.units)
		return
	}
	g.add(now, float64(r.Request.Cost)/(capacity.units*float64(g.window)/float64(capacity.period)))
	if r.Rule != nil && !hasOneKey(r.Rule) {
		g.see(now, r.Request.Key)
	}
}

// gauge returns the gauge of a limit.
func (p *pressures) gauge(r *policy.LimitResult, window, now time.Duration) *gauge {
	var rule *rulePressure
	if known, ok := p.rules.Load(r.Rule.Name); ok {
		rule = known.(*rulePressure)
	} else {
		rule = p.add(r.Rule.Name, now)
	}
	name := r.Request.Limit.Name()
	for _, g := range *rule.gauges.Load() {
		if g.limit == name && (g.window == window || r.Override || r.From == policy.FromPlan) {
			return g
		}
	}
	rule.mu.Lock()
	defer rule.mu.Unlock()
	// Gauges of a limit whose window has changed, and idle gauges, are dropped.
	gauges := make([]*gauge, 0, 1+len(*rule.gauges.Load()))
	for _, g := range *rule.gauges.Load() {
		if g.limit == name && (g.window == window || r.Override || r.From == policy.FromPlan) {
			return g
		}
		if g.limit != name && !g.isIdle(now) {
			gauges = append(gauges, g)
		}
	}
	g := &gauge{limit: name, window: window, mean: r.Request.Limit.IsConcurrency()}
	gauges = append(gauges, g)
	rule.gauges.Store(&gauges)
	return g
}

// add adds a rule. When there are many rules, it forgets idle rules.
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
			pressure /= math.Float64frombits(p.share.Load()) // units in flight are counted for all processes
		}
		most = max(most, pressure)
	}
	return most
}

// forget drops the rules that are gone.
func (p *pressures) forget(gone func(rule string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules.Range(func(name, _ any) bool {
		if gone(name.(string)) {
			p.rules.Delete(name)
			p.count--
		}
		return true
	})
}

// capacity is what a limit gives.
type capacity struct {
	units    float64       // per period, or in flight
	period   time.Duration // zero for units in flight
	fill     time.Duration // the time in which an empty limit becomes full
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
