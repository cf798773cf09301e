package sluice

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// The largest numbers that limits accept.
const (
	maxCold = 100
	maxTTL  = 30 * day
)

func refuse(field, problem, remedy string) *LimitError {
	return &LimitError{Field: field, Problem: problem, Remedy: remedy}
}

// between checks that a count lies within bounds.
func between(field string, n, low, high int64) *LimitError {
	if n < low || n > high {
		return refuse(field, fmt.Sprintf("is %d", n), fmt.Sprintf("give %d to %d", low, high))
	}
	return nil
}

// duration checks that a time lies within bounds and is whole microseconds.
func duration(field string, d, low, high time.Duration) *LimitError {
	if d < low || d > high {
		return refuse(field, fmt.Sprintf("is %v", d), fmt.Sprintf("give %v to %v", low, high))
	}
	if d%time.Microsecond != 0 {
		return refuse(field, fmt.Sprintf("is %v", d), "give whole microseconds")
	}
	return nil
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// first returns the first error, if any.
func first(errs ...*LimitError) *LimitError {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkRate(r Rate) *LimitError {
	if problem, remedy := r.check(); problem != "" {
		return refuse("Rate", problem, remedy)
	}
	return nil
}

// pace reduces a rate so that units are counted exactly. The function units returns how many units of
// a count must fit. If they do not fit, the error names the nearest rate with which
// they do.
func pace(r Rate, units func(count int64) int64) (algo.Pace, *LimitError) {
	if err := checkRate(r); err != nil {
		return algo.Pace{}, err
	}
	p := algo.NewPace(r.count, r.micros())
	if p.Fits(uint64(units(r.count))) {
		return p, nil
	}
	err := refuse("Rate", fmt.Sprintf("of %v cannot be counted exactly for %d units", r, units(r.count)), "")
	return algo.Pace{}, err.accept(nearest(r, func(count int64) bool {
		return algo.NewPace(count, r.micros()).Fits(uint64(units(count)))
	}))
}

// nearest returns the accepted rate of the same period whose count is nearest to r's, or the zero
// Rate. It tries multiples of the divisors of the period.
func nearest(r Rate, accepted func(count int64) bool) Rate {
	best := Rate{}
	for _, g := range divisors(r.micros()) {
		for _, n := range [2]int64{r.count / g * g, r.count/g*g + g} {
			if n < 1 || n > maxUnits {
				continue
			}
			c := Rate{n, r.period}
			if (best.IsZero() || apart(c, r) < apart(best, r)) && accepted(n) {
				best = c
			}
		}
	}
	return best
}

// divisors returns the divisors of n. It takes the prime factors beyond 2¹⁶ as one factor: for
// such a period any rate close to r is good enough.
func divisors(n int64) []int64 {
	all := []int64{1}
	grow := func(factor int64, times int) {
		for _, d := range all {
			for range times {
				d *= factor
				all = append(all, d)
			}
		}
	}
	for factor := int64(2); factor < 1<<16 && n > 1; factor++ {
		times := 0
		for ; n%factor == 0; n /= factor {
			times++
		}
		grow(factor, times)
	}
	if n > 1 {
		grow(n, 1)
	}
	return all
}

func apart(a, b Rate) int64 {
	return max(a.count-b.count, b.count-a.count)
}

// units returns the most units that may be missing from the bucket, if its rate has this count.
func (t TokenBucket) units(count int64) int64 {
	t.Rate.count = count
	t = t.complete().(TokenBucket)
	return t.Burst + t.Debt
}

func (t TokenBucket) compile(p *algo.Params) *LimitError {
	if err := checkRate(t.Rate); err != nil {
		return err
	}
	units := t.units
	t = t.complete().(TokenBucket)
	if err := first(between("Burst", t.Burst, 1, algo.MaxUnits-1), between("Debt", t.Debt, 1, algo.MaxUnits-t.Burst)); err != nil {
		return err
	}
	pace, err := pace(t.Rate, units)
	if err != nil {
		return err
	}
	p.Capacity = t.Burst
	if t.WarmUp == 0 {
		if t.ColdFactor != 0 {
			return refuse("ColdFactor", "is given without a warm-up time", "give both or none")
		}
		p.Kind = algo.KindBucket
		p.Bucket = algo.NewBucket(pace, t.Rate.micros(), t.Burst, t.Debt)
		return nil
	}
	if err := first(
		duration("WarmUp", t.WarmUp, time.Millisecond, day),
		between("ColdFactor", t.ColdFactor, 2, maxCold),
	); err != nil {
		return err
	}
	if !algo.WarmFits(pace, micros(t.WarmUp), t.ColdFactor) {
		return refuse("WarmUp", fmt.Sprintf("of %v cannot be computed exactly with %v", t.WarmUp, t.Rate),
			"give a shorter one, or a rate whose count and period share more factors")
	}
	p.Kind = algo.KindWarmBucket
	p.Warm = algo.NewWarmBucket(pace, t.Rate.micros(), t.Burst, t.Debt, micros(t.WarmUp), t.ColdFactor)
	return nil
}

func (b LeakyBucket) compile(p *algo.Params) *LimitError {
	if err := first(
		checkRate(b.Rate),
		between("Queue", b.Queue, 0, algo.MaxUnits-2),
		between("Undelayed", b.Undelayed, 0, b.Queue),
	); err != nil {
		return err
	}
	pace, err := pace(b.Rate, func(int64) int64 { return b.Queue + 1 })
	if err != nil {
		return err
	}
	p.Kind, p.Capacity = algo.KindLeaky, b.Queue+1
	p.Leaky = algo.NewLeakyBucket(pace, b.Rate.micros(), b.Queue, b.Undelayed)
	return nil
}

func (w FixedWindow) compile(p *algo.Params) *LimitError {
	p.Kind, p.Capacity = algo.KindFixedWindow, w.Rate.count
	if w.Calendar != 0 {
		if w.Calendar > CalendarMonth {
			return refuse("Calendar", fmt.Sprintf("is %d", w.Calendar), "give CalendarDay, CalendarWeek or CalendarMonth")
		}
		if w.Opened {
			return refuse("Opened", "is given, and a calendar too", "give one of them")
		}
		if err := between("Rate", w.Rate.count, 1, maxUnits); err != nil {
			return err
		}
		c := &algo.Calendar{Unit: algo.Unit(w.Calendar), Zone: w.complete().(FixedWindow).Zone}
		p.Fixed = algo.FixedWindow{Count: w.Rate.count, Length: c.Longest(), CountDenied: w.CountDenied, Calendar: c}
		return nil
	}
	if err := checkRate(w.Rate); err != nil {
		return err
	}
	if w.Zone != nil {
		return refuse("Zone", "is given without a calendar", "give both or none")
	}
	p.Fixed = algo.FixedWindow{Count: w.Rate.count, Length: w.Rate.micros(), Opened: w.Opened, CountDenied: w.CountDenied}
	return nil
}

func (w SlidingWindow) compile(p *algo.Params) *LimitError {
	if err := first(checkRate(w.Rate), between("Cells", int64(w.Cells), 0, algo.MaxCells)); err != nil {
		return err
	}
	length, cells := w.Rate.micros(), int64(w.complete().(SlidingWindow).Cells)
	if length%cells != 0 {
		return refuse("Cells", fmt.Sprintf("is %d, which does not divide %v into whole microseconds", cells, w.Rate.period),
			"give a divisor of it, or none for the default")
	}
	p.Kind, p.Capacity = algo.KindSlidingWindow, w.Rate.count
	p.Cells = algo.SlidingWindow{Count: w.Rate.count, Length: length, Cells: cells, CountDenied: w.CountDenied}
	return nil
}

func (c SlidingCounter) compile(p *algo.Params) *LimitError {
	if err := checkRate(c.Rate); err != nil {
		return err
	}
	if c.Rate.micros() < algo.MinCounterLength {
		return refuse("Rate", fmt.Sprintf("has a period of %v", c.Rate.period), "the shortest for a sliding counter is 1ms").
			accept(perMillisecond(c.Rate))
	}
	if c.Rate.count > algo.MaxCounterCount {
		return refuse("Rate", fmt.Sprintf("is %d units a period", c.Rate.count), fmt.Sprintf("the most for a sliding counter is %d", int64(algo.MaxCounterCount))).
			accept(Rate{algo.MaxCounterCount, c.Rate.period})
	}
	p.Kind, p.Capacity = algo.KindSlidingCounter, c.Rate.count
	p.Counter = algo.SlidingCounter{Count: c.Rate.count, Length: c.Rate.micros(), CountDenied: c.CountDenied}
	return nil
}

// perMillisecond returns the rate nearest to r whose period is a millisecond.
func perMillisecond(r Rate) Rate {
	hi, lo := bits.Mul64(uint64(r.count), 1000)
	n, _ := bits.Div64(hi, lo, uint64(r.micros()))
	return Rate{int64(min(n, algo.MaxCounterCount)), time.Millisecond}
}

func (l SlidingLog) compile(p *algo.Params) *LimitError {
	if err := first(checkRate(l.Rate), duration("MinInterval", l.MinInterval, 0, l.Rate.period)); err != nil {
		return err
	}
	if l.Rate.count > algo.MaxLogCount {
		return refuse("Rate", fmt.Sprintf("is %d units a period, and a log holds an entry for each, %d at most", l.Rate.count, algo.MaxLogCount), "give a sliding window, which takes more").
			accept(Rate{algo.MaxLogCount, l.Rate.period})
	}
	p.Kind, p.Capacity = algo.KindSlidingLog, l.Rate.count
	p.Log = algo.SlidingLog{
		Count: l.Rate.count, Length: l.Rate.micros(),
		MinInterval: micros(l.MinInterval), CountDenied: l.CountDenied,
	}
	return nil
}

func (c Concurrency) compile(p *algo.Params) *LimitError {
	c = c.complete().(Concurrency)
	if err := first(
		between("Max", c.Max, 1, algo.MaxConcurrency),
		between("Queue", c.Queue, 0, algo.MaxConcurrency-c.Max),
		duration("TTL", c.TTL, time.Millisecond, maxTTL),
		duration("Latency", c.Latency, 0, maxTTL),
	); err != nil {
		return err
	}
	p.Kind, p.Capacity = algo.KindConcurrency, c.Max+c.Queue
	p.Conc = algo.Concurrency{Max: c.Max, Queue: c.Queue, TTL: micros(c.TTL), Latency: micros(c.Latency)}
	return nil
}
