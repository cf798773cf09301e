package hybrid

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// scenario is all that a seed decides before a simulation runs. Shrinking it removes parts.
type scenario struct {
	seed    uint64
	limit   *sluice.Limit
	other   *sluice.Limit // with other numbers or terms, or exact; used after a change
	others  int           // so many processes begin with the other limit
	nodes   int
	length  time.Duration
	weather weather
	drift   float64 // of the server's clock
	drifts  float64 // of the processes' clocks: each is so much faster, or slower, or right
	load    load
	cost    int64 // the most units of a request
	keys    int
	// corrections says that processes settle and cancel some of their charges.
	corrections bool
	floors      bool
	debits      bool // some requests are debits
	faults      []fault
	start       time.Time // the server's time
}

// fault happens at a time to a process, or to the server.
type fault struct {
	at   time.Duration
	what mishap
	node int
	long time.Duration
}

type mishap uint8

const (
	partition  mishap = iota // a process and the server lose all calls, or all answers, or both
	crash                    // a process starts again with the same identity
	pause                    // a process stops for a time
	suspend                  // all processes stop, and their monotonic clocks too
	failover                 // the server goes on with data of an earlier time
	restarting               // the server loses all data
	jump                     // the server's clock jumps
	resetting                // a client resets the key
	change                   // a process uses the other limit
	mishaps
)

func (m mishap) String() string {
	return [...]string{"partition", "crash", "pause", "suspend", "failover", "restart of the server", "jump of the clock", "reset", "changed limit"}[m]
}

func (s *scenario) String() string {
	var b strings.Builder
	h := s.limit.Hybrid()
	fmt.Fprintf(&b, "seed %d: %v, sync %v, life %v, at most %d granted, overdraft %d, credit %d\n",
		s.seed, s.limit.Algorithm(), h.Sync, h.Life, s.limit.Escrow(), h.Overdraft, h.Credit)
	fmt.Fprintf(&b, "%d processes for %v, %v, costs up to %d, %+v, drift %.4f, of the processes %.4f",
		s.nodes, s.length, s.load, s.cost, s.weather, s.drift, s.drifts)
	if s.others > 0 || s.has(change) {
		fmt.Fprintf(&b, "\n%d of them begin with %v, %+v", s.others, s.other.Algorithm(), s.other.Hybrid())
	}
	for _, f := range s.faults {
		fmt.Fprintf(&b, "\n%12v: %v of process %d for %v", f.at, f.what, f.node, f.long)
	}
	return b.String()
}

// has reports whether the scenario has one of some mishaps.
func (s *scenario) has(some ...mishap) bool {
	return slices.ContainsFunc(s.faults, func(f fault) bool { return slices.Contains(some, f.what) })
}

// one returns one of some values.
func one[T any](c *rand.Rand, some ...T) T { return some[c.IntN(len(some))] }

// between returns a number from low to high.
func between(c *rand.Rand, low, high int64) int64 { return low + c.Int64N(high-low+1) }

// newScenario makes up a scenario.
func newScenario(seed uint64) *scenario {
	c := rand.New(rand.NewPCG(seed, 1))
	s := &scenario{seed: seed, nodes: int(between(c, 1, 5)), cost: 1, start: time.Date(2030, 5, 4, 23, 59, 58, 0, time.UTC)}
	if c.IntN(4) == 0 {
		s.cost = between(c, 2, 6)
	}
	s.floors = c.IntN(6) == 0
	s.debits = rand.New(rand.NewPCG(seed, 11)).IntN(5) == 0
	s.makeLimit(c)
	h := s.limit.Hybrid()
	s.length = 400*time.Millisecond + 2*h.Life
	s.load = newLoad(c, s.limit, s.nodes)
	s.addKeys(rand.New(rand.NewPCG(seed, 7)))
	s.addOther(rand.New(rand.NewPCG(seed, 8)))
	s.weather.trip = one(c, 100*time.Microsecond, 500*time.Microsecond, 3*time.Millisecond, 20*time.Millisecond)
	s.drift = one(c, 0, 0, 1.0/250, -1.0/250)
	s.drifts = one(rand.New(rand.NewPCG(seed, 13)), 0, 3.0/1000) // with the server's, less than 1/128
	if c.IntN(4) > 0 {
		rate := func() float64 { return one(c, 0, 0, 0.02, 0.2) }
		s.weather.lostBefore, s.weather.lostAfter, s.weather.refused = rate(), rate(), rate()
		s.weather.twice, s.weather.slow = rate(), rate()
	}
	if c.IntN(5) > 0 {
		for range between(c, 1, 5) {
			s.addFault(c)
		}
		slices.SortFunc(s.faults, func(a, b fault) int { return int(a.at - b.at) })
	}
	return s
}

// addKeys makes up how many keys there are, and whether charges are corrected.
func (s *scenario) addKeys(c *rand.Rand) {
	s.keys = 1
	switch c.IntN(36) {
	case 0:
		s.keys = int(between(c, fewRequests, 2*fewRequests))
		s.load.total = min(s.load.total, 120)
	case 1, 2, 3, 4, 5:
		s.keys = int(between(c, 2, 4))
		s.load.total = min(s.load.total, 300)
	}
	s.corrections = c.IntN(6) == 0
}

// addOther makes up how the other limit differs: in its count only, in its terms, in its numbers. It may be exact. Some
// processes may begin with it.
func (s *scenario) addOther(c *rand.Rand) {
	a, h, exact := s.other.Algorithm(), *s.limit.Hybrid(), c.IntN(3) == 0
	switch c.IntN(4) {
	case 0: // another count
		if f := rand.New(rand.NewPCG(s.seed, 12)); f.IntN(2) == 0 {
			a = scaled(a, one[int64](f, 8, 40))
		}
	case 1: // the same numbers
		a = s.limit.Algorithm()
		h.Sync = one(c, 10*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond)
		h.Life = one(c, 4*h.Sync, 400*time.Millisecond)
	default:
		a = renumbered(c, a)
	}
	if c.IntN(4) == 0 {
		s.others = 1 + c.IntN(s.nodes)
	}
	s.other = sluice.MustLimit("simulated", a)
	if exact {
		return
	}
	var err error
	if s.other, err = s.other.WithHybrid(h); err != nil {
		panic(err)
	}
}

// renumbered returns an algorithm with another rate, period or form.
func renumbered(c *rand.Rand, a sluice.Algorithm) sluice.Algorithm {
	period := one(c, 200*time.Millisecond, 500*time.Millisecond, time.Second)
	switch a := a.(type) {
	case sluice.TokenBucket:
		a.Rate = sluice.Per(between(c, 20, 800), period)
		return a
	case sluice.FixedWindow:
		return sluice.FixedWindow{Rate: sluice.Per(a.Rate.Count(), period), Opened: c.IntN(2) == 0}
	case sluice.SlidingCounter:
		a.Rate = sluice.Per(a.Rate.Count(), period)
		return a
	case sluice.SlidingLog:
		a.Rate = sluice.Per(a.Rate.Count(), period)
		return a
	case sluice.SlidingWindow:
		a.Rate, a.Cells = sluice.Per(a.Rate.Count(), period), one(c, 1, 4, 10)
		return a
	}
	return a
}

// scaled returns an algorithm with so many times the count.
func scaled(a sluice.Algorithm, times int64) sluice.Algorithm {
	more := func(r sluice.Rate) sluice.Rate { return sluice.Per(times*r.Count(), r.Period()) }
	switch a := a.(type) {
	case sluice.TokenBucket:
		a.Rate, a.Burst = more(a.Rate), times*a.Burst
		return a
	case sluice.FixedWindow:
		a.Rate = more(a.Rate)
		return a
	case sluice.SlidingCounter:
		a.Rate = more(a.Rate)
		return a
	case sluice.SlidingLog:
		a.Rate = more(a.Rate)
		return a
	case sluice.SlidingWindow:
		a.Rate = more(a.Rate)
		return a
	}
	return a
}

// makeLimit makes up the limit.
func (s *scenario) makeLimit(c *rand.Rand) {
	h := sluice.Hybrid{
		Sync:     one(c, 10*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond),
		Stranded: one(c, 0.05, 0.2, 0.5, 1),
	}
	h.Life = one(c, 4*h.Sync, 8*h.Sync, 400*time.Millisecond)
	count, period := between(c, 40, 800), one(c, 200*time.Millisecond, time.Second)
	if h.Stranded == 0.05 {
		count += 100
	}
	algorithm := func(count int64) sluice.Algorithm { return nil }
	switch rate := func(n int64) sluice.Rate { return sluice.Per(n, period) }; c.IntN(8) {
	case 0, 1:
		perPeriod := between(c, 20, 800)
		algorithm = func(n int64) sluice.Algorithm { return sluice.TokenBucket{Rate: rate(perPeriod), Burst: n} }
	case 2:
		algorithm = func(n int64) sluice.Algorithm { return sluice.FixedWindow{Rate: rate(n)} }
	case 3:
		algorithm = func(n int64) sluice.Algorithm { return sluice.FixedWindow{Rate: rate(n), Opened: true} }
	case 4:
		algorithm = func(n int64) sluice.Algorithm { return sluice.SlidingCounter{Rate: rate(n)} }
	case 5:
		algorithm = func(n int64) sluice.Algorithm { return sluice.SlidingLog{Rate: rate(n)} }
	case 6:
		cells := one(c, 1, 4, 10)
		algorithm = func(n int64) sluice.Algorithm { return sluice.SlidingWindow{Rate: rate(n), Cells: cells} }
	case 7:
		algorithm = func(n int64) sluice.Algorithm {
			return sluice.FixedWindow{Rate: sluice.PerDay(n), Calendar: sluice.CalendarDay, Zone: time.UTC}
		}
		count *= 5
	}
	if c.IntN(5) == 0 {
		h.Overdraft = between(c, 1, count/4)
	}
	if c.IntN(6) == 0 {
		h.Credit = one(c, 1, 10, count/4, count)
	}
	limit := func(count int64) *sluice.Limit {
		l, err := sluice.MustLimit("simulated", algorithm(count)).WithHybrid(h)
		if err != nil {
			panic(err)
		}
		return l
	}
	s.limit = limit(count)
	s.other = limit(max(h.Overdraft, h.Credit, one(c, count*3/2, max(40, count/2))))
}

// addFault makes up a fault.
func (s *scenario) addFault(c *rand.Rand) {
	h := s.limit.Hybrid()
	f := fault{
		at: time.Duration(c.Int64N(int64(s.length * 2 / 3))), what: mishap(c.IntN(int(mishaps))), node: c.IntN(s.nodes),
		long: time.Duration(c.ExpFloat64() * float64(h.Life)),
	}
	if f.what == jump {
		f.long = one(c, h.Life/2, 3*h.Life, time.Hour)
		if c.IntN(2) == 0 {
			f.long = -f.long
		}
	}
	f.long = f.long.Truncate(time.Microsecond)
	s.faults = append(s.faults, f)
}

// shrink returns smaller scenarios.
func (s *scenario) shrink() []*scenario {
	var all []*scenario
	smaller := func(f func(*scenario)) {
		c := *s
		c.faults = slices.Clone(s.faults)
		f(&c)
		all = append(all, &c)
	}
	for i := range s.faults {
		smaller(func(c *scenario) { c.faults = slices.Delete(c.faults, i, i+1) })
	}
	for _, p := range []func(*scenario) *float64{
		func(c *scenario) *float64 { return &c.weather.lostBefore },
		func(c *scenario) *float64 { return &c.weather.lostAfter },
		func(c *scenario) *float64 { return &c.weather.refused },
		func(c *scenario) *float64 { return &c.weather.twice },
		func(c *scenario) *float64 { return &c.weather.slow },
		func(c *scenario) *float64 { return &c.drift },
		func(c *scenario) *float64 { return &c.drifts },
	} {
		if *p(s) != 0 {
			smaller(func(c *scenario) { *p(c) = 0 })
		}
	}
	if s.cost > 1 {
		smaller(func(c *scenario) { c.cost = 1 })
	}
	if s.floors {
		smaller(func(c *scenario) { c.floors = false })
	}
	if s.debits {
		smaller(func(c *scenario) { c.debits = false })
	}
	if s.keys > 1 {
		smaller(func(c *scenario) { c.keys = max(1, c.keys/2) })
	}
	if s.corrections {
		smaller(func(c *scenario) { c.corrections = false })
	}
	if s.others > 0 {
		smaller(func(c *scenario) { c.others-- })
	}
	if s.nodes > max(1, s.others) && !slices.ContainsFunc(s.faults, func(f fault) bool { return f.node == s.nodes-1 }) {
		smaller(func(c *scenario) { c.nodes-- })
	}
	return all
}
