package hybrid

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// decideSlow decides a request that the units in hand do not decide.
func (s *Store) decideSlow(ctx context.Context, r *sluice.Request) (d sluice.Decision, err error) {
	if err := r.Check(); err != nil {
		return d, err
	}
	if s.closed.Load() {
		return d, sluice.ErrClosed
	}
	if !plain(r) {
		return s.backend.Decide(ctx, *r)
	}
	if r.Peek {
		return s.peek(ctx, r)
	}
	if exact(r) {
		return s.uncovered(ctx, r)
	}
	return s.decideOn(ctx, r)
}

// peek allows what is in hand, and otherwise returns what the wrapped store allows.
func (s *Store) peek(ctx context.Context, r *sluice.Request) (d sluice.Decision, err error) {
	if e := s.table.lookup(r.Limit, r.Key); e != nil {
		now := s.clock.now()
		e.lock()
		ok := e.limit == r.Limit && e.hand.has(r.Cost, r.Floor, now)
		if ok {
			e.show(now.mono, &d)
		}
		e.unlock()
		if ok {
			return d, nil
		}
	}
	return s.backend.Decide(ctx, *r)
}

// uncovered lets the wrapped store decide a debit or an overdraw that is more than what is in hand. A claim would charge
// it only if it fits.
func (s *Store) uncovered(ctx context.Context, r *sluice.Request) (sluice.Decision, error) {
	var out [1]sluice.Decision
	err := s.decideAllExactly(ctx, []sluice.Request{*r}, out[:])
	return out[0], err
}

// show is spend without spending.
func (e *entry) show(now int64, d *sluice.Decision) {
	d.Allowed = true
	d.Limit = e.terms.capacity
	d.Remaining = e.hand.left
	d.ResetAfter = time.Duration(max(0, e.seen.resetAt-now))
}

// decideOn decides a request by units in hand, a claim, or a call of the wrapped store.
func (s *Store) decideOn(ctx context.Context, r *sluice.Request) (d sluice.Decision, err error) {
	e := s.entry(r.Limit, r.Key)
	for counted, waited := false, false; e != nil; {
		now := s.clock.now()
		e.lock()
		if e.dead {
			e.unlock()
			if s.closed.Load() {
				return d, sluice.ErrClosed
			}
			e, counted = s.entry(r.Limit, r.Key), false
			continue
		}
		if e.limit != r.Limit {
			s.adopt(e, r.Limit)
		}
		if counted {
			e.requests-- // spend and deny count it
			e.units -= uint64(r.Cost)
		}
		e.used = true
		e.count(now.mono)
		switch {
		case s.draining.Load():
		case e.hand.has(r.Cost, r.Floor, now):
			e.spend(r.Cost, now.mono, &d)
			if e.hand.left < e.low {
				s.runLow(e, now.mono)
			}
			e.unlock()
			return d, nil
		case e.deny(r.Cost, r.Floor, now.mono, &d):
			e.unlock()
			return d, nil
		}
		counted = true
		e.request(r.Cost, now.mono)
		switch {
		case s.draining.Load(), !e.hot, now.mono < e.exact, r.Cost > e.terms.capacity:
		case e.hand.has(r.Cost, 0, now): // the floor is too high for the units in hand
		case e.open == nil:
			return s.decideByClaim(ctx, s.claim(e, now, purpose{take: r.Cost, floor: r.Floor}))
		case e.open.flying && !waited && now.mono-e.open.sent.mono < int64(s.trip.patience()):
			done := e.open.done
			e.unlock()
			if err := s.await(ctx, done); err != nil {
				return d, err
			}
			waited = true
			continue
		}
		return s.decideExactly(ctx, e, r)
	}
	return s.backend.Decide(ctx, *r)
}

// adopt makes a locked entry one of another version of its limit.
func (s *Store) adopt(e *entry, l *sluice.Limit) {
	e.adopt(s.registry.of(l))
	if e.changed {
		s.wake(e)
	}
}

// request counts a request.
func (e *entry) request(cost, now int64) {
	e.requests++
	e.units += uint64(cost)
	e.demand.last = now
	if !e.hot && e.demand.useful(e.requests) >= e.terms.hotFrom {
		e.hot = true
	}
}

// count completes the sample of the demand, if its time is over.
func (e *entry) count(now int64) {
	e.demand.count(e.requests, e.units, now, e.terms.sync)
	if e.hot && e.demand.sampled && e.demand.began == now && e.demand.requests*float64(e.terms.sync) < coldTo {
		e.cool()
	}
}

// cool ends the grants of a key that is requested too seldom, and its pace: later, other units may be free.
func (e *entry) cool() {
	e.hot = false
	e.pace = pace{until: e.pace.until}
}

// decideByClaim lets a claim decide its request. It unlocks the entry.
func (s *Store) decideByClaim(ctx context.Context, q *openClaim) (d sluice.Decision, err error) {
	q.entry.counts.exact++
	q.entry.unlock()
	g := s.fly(ctx, []*openClaim{q})[0]
	switch {
	case g.Err != nil:
		return d, g.Err
	case g.Stale:
		c := &q.claim
		return s.backend.Decide(ctx, sluice.Request{Limit: c.Limit, Key: c.Key, Cost: c.Take, Floor: c.Floor})
	}
	return g.Decision, nil
}

// decideExactly lets the wrapped store decide a request. It unlocks the entry.
func (s *Store) decideExactly(ctx context.Context, e *entry, r *sluice.Request) (sluice.Decision, error) {
	e.counts.exact++
	hot, resets := e.hot, e.resets
	e.unlock()
	exact := *r
	exact.MaxWait = heldWait(hot)
	d, err := s.backend.Decide(ctx, exact)
	if hot && err == nil && !d.Allowed {
		e.learnDenial(&d, r, resets, s.clock.now().mono, s.random())
	}
	return d, err
}

// heldWait returns the longest wait of an exact request: no wait, and a mark if this process is among the holders of
// the key. See driver.Grant.Others.
func heldWait(hot bool) time.Duration {
	if hot {
		return -1
	}
	return 0
}

// learnDenial keeps a denial of the wrapped store, unless something ended denials since the call
// began.
func (e *entry) learnDenial(d *sluice.Decision, r *sluice.Request, resets uint32, now int64, random float64) {
	e.lock()
	if !e.dead && e.resets == resets && e.limit == r.Limit {
		e.deniedBy(d, r.Cost, r.Floor, now, random)
	}
	e.unlock()
}

// await waits for the call of another goroutine.
func (s *Store) await(ctx context.Context, done <-chan struct{}) error {
	t := time.NewTimer(s.trip.patience())
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-s.base.Done():
		return sluice.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("hybrid: left a request that waited for units: %w", ctx.Err())
	}
	return nil
}
