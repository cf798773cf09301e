package hybrid

import (
	"fmt"
	"math"

	"github.com/sluicehq/sluice"
)

// A bound replays what was admitted, in the order in which it was admitted, and returns by how much the limit
// is exceeded. Times are the server's, in microseconds. It computes with whole numbers, without the oracle and
// without package algo.
type bound interface {
	// admit returns the units beyond the limit after some units were admitted, 0 or less if there are none.
	admit(units, at int64) int64
	// left returns how many units were left at least in the last microseconds.
	left(at, ago int64) int64
	// counts returns the time at which units count that were just admitted at a time. After the clock was set back,
	// units count in the window that goes on, not in the window of the earlier time.
	counts(at int64) int64
	// refund takes back units that count at a time.
	refund(units, counted, at int64)
	// forget gives back what the server has lost. Until a time, so many units may be in hand although the
	// server does not have them in escrow.
	forget(lost, more, at, until int64)
	// turnBack is called after the server's clock was set back by some time, before it continues at a time.
	turnBack(at, by int64)
	// follow changes the limits that processes use at a time: one of them, or several at once. Used units stay used.
	follow(laws []*sluice.Limit, at int64)
	// reset forgets all that was admitted.
	reset(at int64)
}

// newBound returns the bound of some limits that processes use at once: the exact algorithm, or the law that the
// documentation publishes.
func newBound(laws []*sluice.Limit, at int64) (b bound) {
	l := laws[0]
	switch a := l.Algorithm().(type) {
	case sluice.TokenBucket:
		full := &bucketBound{unit: 1, last: at}
		full.follow(laws, at)
		full.reset(at)
		return full
	case sluice.FixedWindow:
		b = &windowBound{length: l.Rate().Period().Microseconds(), opened: a.Opened}
		if a.Calendar != 0 {
			b = &windowBound{length: day}
		}
	case sluice.SlidingWindow, sluice.SlidingLog, sluice.SlidingCounter:
		b = &slidingBound{}
	default:
		panic(fmt.Sprintf("no bound for %v", l))
	}
	for _, other := range laws {
		if !alike(l, other) {
			b = &slidingBound{} // of all forms together
		}
	}
	b.follow(laws, at)
	return b
}

const day = 24 * 3600 * 1_000_000 // the only calendar of the simulator

// alike reports whether limits differ in nothing but their counts, so that the bound of the largest holds them all.
func alike(a, b *sluice.Limit) bool {
	switch x := a.Algorithm().(type) {
	case sluice.TokenBucket:
		return true // a bucketBound has several
	case sluice.FixedWindow:
		y := b.Algorithm().(sluice.FixedWindow)
		return x.Opened == y.Opened && x.Calendar == y.Calendar && (x.Calendar != 0 || x.Rate.Period() == y.Rate.Period())
	case sluice.SlidingWindow:
		return x.Cells == b.Algorithm().(sluice.SlidingWindow).Cells && a.Rate().Period() == b.Rate().Period()
	}
	return a.Rate().Period() == b.Rate().Period()
}

// lawOf returns the most units that a limit of windows admits in any interval that is shorter than its period.
func lawOf(l *sluice.Limit) (units, length int64) {
	units, length = l.Capacity(), l.Rate().Period().Microseconds()
	switch a := l.Algorithm().(type) {
	case sluice.FixedWindow:
		if units *= 2; a.Calendar != 0 {
			length = day
		}
	case sluice.SlidingCounter:
		units = 2*units - 1
	}
	return units, length
}

// largest returns the largest count of some limits.
func largest(laws []*sluice.Limit) (count int64) {
	for _, l := range laws {
		count = max(count, l.Capacity())
	}
	return count
}

// extra is more units for a time.
type extra struct{ units, until int64 }

type extras []extra

// at returns the units that are extra at a time.
func (e extras) at(now int64) (sum int64) {
	for _, x := range e {
		if now <= x.until {
			sum += x.units
		}
	}
	return sum
}

// bucketBound is a token bucket. A token has as many ticks as the period has microseconds.
type bucketBound struct {
	burst, refill, unit int64
	ticks, last         int64
	charged             int64 // the last time at which something was admitted
	extras              extras
}

func (b *bucketBound) elapse(now int64) {
	if now > b.last {
		b.ticks += (now - b.last) * b.refill
		b.last = now
	}
	b.ticks = min(b.ticks, (b.burst+b.extras.at(now))*b.unit)
}

func (b *bucketBound) admit(units, at int64) int64 {
	b.elapse(at)
	b.charged = b.last
	b.ticks -= units * b.unit
	return -floorDiv(b.ticks, b.unit)
}

func (b *bucketBound) left(at, ago int64) int64 {
	b.elapse(at)
	return floorDiv(b.ticks-ago*b.refill, b.unit)
}

func (b *bucketBound) counts(at int64) int64 { return at }

func (b *bucketBound) refund(units, _, at int64) {
	b.elapse(at)
	b.ticks += units * b.unit
	b.elapse(at)
}

func (b *bucketBound) forget(lost, more, at, until int64) {
	if lost > 0 {
		b.last = min(b.last, at) // the server counts from its clock again
	}
	b.extras = append(b.extras, extra{more, until})
	b.ticks += lost * b.unit
	b.elapse(at)
}

func (b *bucketBound) turnBack(at, _ int64) { b.last = min(b.last, at) }

// follow lets the bucket have the largest burst and the highest rate, or the sums if no limit has both.
func (b *bucketBound) follow(laws []*sluice.Limit, at int64) {
	b.elapse(at)
	unit := b.unit
	for _, l := range laws {
		unit = leastMultiple(unit, l.Rate().Period().Microseconds())
	}
	b.ticks *= unit / b.unit
	var burst, refill, most, fastest int64
	for _, l := range laws {
		r := l.Rate()
		rate := r.Count() * (unit / r.Period().Microseconds())
		most, fastest = max(most, l.Capacity()), max(fastest, rate)
		burst, refill = burst+l.Capacity(), refill+rate
	}
	for _, l := range laws {
		if r := l.Rate(); l.Capacity() == most && r.Count()*(unit/r.Period().Microseconds()) == fastest {
			burst, refill = most, fastest
			break
		}
	}
	b.ticks += (burst - b.burst) * unit
	if slow := b.refill * (unit / b.unit); b.charged > 0 && refill > slow { // the higher rate counts from the latest charge
		b.ticks += max(0, b.last-b.charged) * (refill - slow)
	}
	b.burst, b.refill, b.unit = burst, refill, unit
}

func leastMultiple(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

func (b *bucketBound) reset(at int64) {
	b.elapse(at)
	b.ticks = (b.burst + b.extras.at(at)) * b.unit
}

// slidingBound counts the units of the last period: the law of sliding windows, logs and counters. For limits of
// different forms, it is the sum of their laws, in the shortest period.
type slidingBound struct {
	count, length int64 // count is what denials are explained by, and most the law
	most, longest int64 // longest is the longest period
	spends        []spend
	gone          int // so many of them count no more
	sum, last     int64
	turned        int64 // the time that the clock was set back by, in all
	extras        extras
}

// spend is units that were admitted at a time. After the clock was set back, the server may count them at a later time, but not
// for less than a period of real time. at is the latest time that it may count them at, and really does not go back.
type spend struct{ units, at, really int64 }

func (s *slidingBound) admit(units, at int64) int64 {
	really := at + s.turned
	at = max(at, s.last)
	s.last = at
	s.spends = append(s.spends, spend{units, at, really})
	s.sum += units
	for ; s.spends[s.gone].really <= really-s.length; s.gone++ {
		s.sum -= s.spends[s.gone].units
	}
	return s.sum - s.most - s.extras.at(at)
}

func (s *slidingBound) left(at, ago int64) int64 {
	left := s.count
	for _, x := range s.spends {
		if x.at > at-ago-s.length {
			left -= x.units
		}
	}
	return left
}

func (s *slidingBound) counts(at int64) int64 { return max(at, s.last) }

func (s *slidingBound) refund(units, counted, _ int64) {
	for i := range s.spends {
		x := &s.spends[i]
		if x.at < counted {
			continue
		}
		back := min(units, x.units) // several requests of one moment may share a refund of one of them
		x.units -= back
		if i >= s.gone {
			s.sum -= back
		}
		if units -= back; units == 0 {
			return
		}
	}
}

func (s *slidingBound) forget(lost, more, at, until int64) {
	if lost > 0 && at < s.last { // the server counts from its clock again
		s.last = at
		for i := len(s.spends) - 1; i >= 0 && s.spends[i].at > at; i-- {
			s.spends[i].at = at
		}
	}
	s.extras = append(s.extras, extra{max(lost, more), until + 2*s.longest})
}

func (s *slidingBound) turnBack(at, by int64) {
	s.turned += by
	if s.last-at > s.length {
		s.reset(at)
	}
}

func (s *slidingBound) follow(laws []*sluice.Limit, _ int64) {
	s.count, s.most, s.longest = largest(laws), 0, 0
	length := int64(math.MaxInt64)
	for _, l := range laws {
		units, period := lawOf(l)
		s.longest, length = max(s.longest, period), min(length, period)
		if alike(laws[0], l) {
			s.most = max(s.most, units)
		} else {
			s.most += units
		}
	}
	s.length = length
}

func (s *slidingBound) reset(at int64) {
	s.spends, s.gone, s.sum, s.last = nil, 0, 0, at
}

// windowBound counts the units of a fixed window. If requests open the windows, it is the law of two counts in
// any period.
type windowBound struct {
	count, length int64
	opened        bool
	start, used   int64
	later         map[int64]int64 // what was used in windows that begin later: the clock was set back, and the data lost
	sliding       *slidingBound
	extras        extras
}

func (w *windowBound) admit(units, at int64) int64 {
	if w.opened {
		if w.sliding == nil {
			w.sliding = &slidingBound{length: w.length, longest: w.length}
		}
		w.sliding.count, w.sliding.most = 2*w.count, 2*w.count
		w.sliding.extras = w.extras
		return w.sliding.admit(units, at)
	}
	if start := at - at%w.length; start > w.start {
		w.start, w.used = start, w.later[start]
	}
	w.used += units
	return w.used - w.count - w.extras.at(at)
}

func (w *windowBound) left(at, ago int64) int64 {
	switch start := at - at%w.length; {
	case at-start <= ago:
		return 0
	case start > w.start:
		return w.count
	}
	return w.count - w.used
}

func (w *windowBound) counts(at int64) int64 {
	if w.sliding != nil {
		return w.sliding.counts(at)
	}
	return max(at, w.start)
}

func (w *windowBound) refund(units, counted, at int64) {
	switch {
	case w.sliding != nil:
		w.sliding.refund(units, counted, at)
	case !w.opened && counted-counted%w.length == w.start:
		w.used = max(0, w.used-units)
	}
}

func (w *windowBound) forget(lost, more, at, until int64) {
	if w.sliding != nil {
		w.sliding.forget(lost, 0, at, at)
	}
	if lost > 0 && at < w.start { // the server counts in the window of its clock again
		w.later = map[int64]int64{w.start: w.used}
		w.start, w.used = at-at%w.length, 0
	}
	w.extras = append(w.extras, extra{max(lost, more), until + 2*w.length})
}

func (w *windowBound) turnBack(at, by int64) {
	if w.start-at > w.length {
		w.reset(at)
	}
	if w.sliding != nil {
		w.sliding.turnBack(at, by)
	}
}

func (w *windowBound) follow(laws []*sluice.Limit, _ int64) { w.count = largest(laws) }

func (w *windowBound) reset(at int64) {
	// After the clock was set back, the server counts in the window of its clock again.
	w.start, w.used, w.later = min(w.start, at-at%w.length), 0, nil
	if w.sliding != nil {
		w.sliding.reset(at)
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
