package hybrid

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// localBit marks the receipts of local charges. Receipts of package algo are times in microseconds
// or their complements, so their highest bits are equal. Package guard uses the two bits above this
// bit in the same way.
const localBit = 1 << 60

// Decide decides one request. It does not allocate if it decides locally. See sluice.Store, and the
// package comment for what Remaining means.
// It returns the errors of the wrapped store.
func (s *Store) Decide(ctx context.Context, r sluice.Request) (d sluice.Decision, err error) {
	if plain(&r) && !r.Peek && s.decide(r.Limit, r.Key, r.Cost, r.Floor, exact(&r), &d) {
		return d, nil
	}
	return s.decideSlow(ctx, &r)
}

// Take decides a request for cost units and nothing else. See driver.Taker.
// It returns the errors of the wrapped store.
func (s *Store) Take(ctx context.Context, l *sluice.Limit, k sluice.Key, cost int64) (d sluice.Decision, err error) {
	if l != nil && l.Hybrid() != nil && cost > 0 && s.decide(l, k, cost, 0, false, &d) {
		return d, nil
	}
	return s.decideSlow(ctx, &sluice.Request{Limit: l, Key: k, Cost: cost})
}

// DecideLocally decides a request if that needs no call of the wrapped store. See
// driver.LocalDecider.
func (s *Store) DecideLocally(r sluice.Request) (d sluice.Decision, ok bool) {
	ok = plain(&r) && !r.Peek && s.decide(r.Limit, r.Key, r.Cost, r.Floor, exact(&r), &d)
	return d, ok
}

// plain reports whether a request may be decided on granted units.
func plain(r *sluice.Request) bool {
	return r.Limit != nil && r.Limit.Hybrid() != nil && r.Ban == nil && r.Cost > 0 && r.Floor >= 0 &&
		r.MaxWait <= 0 && r.Member == 0 && r.Hold == 0
}

// exact reports whether the wrapped store decides a request that the units in hand do not cover. It charges a debit in any
// case, and an overdraw if one unit is left anywhere.
func exact(r *sluice.Request) bool { return charges(r) || r.Overdraw }

// decide decides a request on the units in hand, or by a denial that is kept. It returns false if
// neither suffices. With covered, no denial suffices: see exact.
func (s *Store) decide(l *sluice.Limit, k sluice.Key, cost, floor int64, covered bool, d *sluice.Decision) bool {
	e := s.table.lookup(l, k)
	if e == nil {
		return false
	}
	now := s.clock.now()
	e.lock()
	if e.limit != l {
		e.unlock()
		return false
	}
	if e.hand.has(cost, floor, now) {
		e.spend(cost, now.mono, d)
		if e.hand.left < e.low {
			s.runLow(e, now.mono)
		}
		e.unlock()
		return true
	}
	ok := !covered && e.deny(cost, floor, now.mono, d)
	if ok && e.pace.rate > 0 {
		s.runLow(e, now.mono)
	}
	e.unlock()
	return ok
}

// spend decides a request by the units in hand, which suffice.
func (e *entry) spend(cost, now int64, d *sluice.Decision) {
	e.hand.left -= cost
	e.requests++
	e.units += uint64(cost)
	e.demand.last = now
	d.Allowed = true
	d.Limit = e.terms.capacity
	d.Remaining = e.hand.left
	d.ResetAfter = time.Duration(max(0, e.seen.resetAt-now))
	d.Receipt.At = (e.seen.offset + now/1000) ^ localBit
	d.Receipt.Over = e.stamp
}

// deny decides a request by a denial that is kept, or because the next claim has to wait.
func (e *entry) deny(cost, floor, now int64, d *sluice.Decision) bool {
	n := &e.denial
	switch {
	case n.denies(cost, floor, now):
		d.RetryAfter, d.ResetAfter = time.Duration(n.retryAt-now), time.Duration(max(n.reset, n.retryAt)-now)
		d.Remaining = n.remaining
	case e.waits(now) && cost <= e.terms.capacity-floor:
		d.RetryAfter = max(time.Duration(e.pace.until-now), time.Millisecond)
		d.ResetAfter = max(d.RetryAfter, time.Duration(e.seen.resetAt-now))
		d.Remaining = min(e.hand.left, cost-1)
	default:
		return false
	}
	d.Reason = sluice.ReasonLimited
	d.Limit = e.terms.capacity
	e.requests++
	e.units += uint64(cost)
	e.counts.cached++
	e.demand.last = now
	return true
}

// waits reports whether requests without units in hand are denied until the next claim, or until the
// answer of the claim that is on its way. A claim from before a reset does not count.
func (e *entry) waits(now int64) bool {
	q := e.open
	return now < e.pace.until || e.pace.rate > 0 && q != nil && q.flying && q.resets == e.resets && q.claim.Take == 0 && now-q.sent.mono < longestDenial/4
}

// runLow calls for the synchronisation of an entry that has few units left. If its claims are
// paced, it is too early until shortly before the next claim, and while a denial is kept that the next
// claim would bring again.
func (s *Store) runLow(e *entry, now int64) {
	if e.pace.rate > 0 {
		soon := now + s.trip.slowest()
		if soon < e.pace.until || e.hand.birth == 0 && e.denial.denies(e.demand.cost(), 0, soon) {
			return
		}
	}
	e.low = math.MinInt64
	e.prefetch = e.prefetch || e.open == nil && (e.hand.birth != 0 || e.pace.rate > 0)
	s.wake(e)
}

// wake puts a locked entry into the list of entries to synchronise soon.
func (s *Store) wake(e *entry) {
	if e.called || e.dead {
		return
	}
	e.called = true
	s.waking.Lock()
	e.follow, s.first = s.first, e
	s.waking.Unlock()
	select {
	case s.wakeUp <- struct{}{}:
	default:
	}
}

// cloned returns a key that does not refer to the memory of its caller.
func cloned(k sluice.Key) sluice.Key { return sluice.EncodedKey(strings.Clone(k.Text()), k.Len()) }
