package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// leastRetry is the least RetryAfter of a request that is denied because the store is down.
const leastRetry = time.Second

// SetFallback replaces Options.Fallback, for example for a new policy. Decisions in progress
// may still use the old one. With nil, all limits have Options.Default.
func (s *Store) SetFallback(f func(l *sluice.Limit) sluice.Fallback) { s.fallback.Store(&f) }

// SetShare replaces Options.Share, or returns an error for a value that is not a share. The units that keys have used
// in the local store stay used.
func (s *Store) SetShare(to sluice.Share) error {
	if err := to.Check(); err != nil {
		return fmt.Errorf("guard: SetShare: %w", err)
	}
	s.scaler.set(share(to))
	return nil
}

// fallbackOf returns the fallback of a limit.
func (s *Store) fallbackOf(l *sluice.Limit) sluice.Fallback {
	f := sluice.FallbackDefault
	if of := *s.fallback.Load(); of != nil {
		f = of(l)
	}
	if f == sluice.FallbackDefault || f > sluice.FallbackLocal {
		f = s.o.Default
	}
	if f == sluice.FallbackLocal && s.o.Local == nil {
		return sluice.FallbackAllow // see docs/adr/0006
	}
	return f
}

// fallBack decides a request that the store did not decide. It returns the layer that
// granted it. why is the store's failure.
func (s *Store) fallBack(ctx context.Context, r *sluice.Request, why error) (sluice.Decision, layer, error) {
	if err := r.Check(); err != nil {
		return sluice.Decision{}, byStore, err
	}
	switch s.fallbackOf(r.Limit) {
	case sluice.FallbackLocal:
		d, err := s.decideLocally(ctx, r, why)
		return d, byLocal, err
	case sluice.FallbackAllow:
		return s.allow(r), byNobody, nil
	default:
		return s.deny(r), byStore, nil
	}
}

// fallBackAll decides a batch that the store did not decide. Requests that the store has
// certainly denied stay denied. Requests with FallbackLocal are one batch of the local
// store, which charges it only if no other request is denied. It charges debits in any case.
func (s *Store) fallBackAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision, why error) error {
	for i := range rs {
		if err := rs[i].Check(); err != nil {
			return err
		}
	}
	var denial driver.DenialError
	if d := (*driver.DenialError)(nil); errors.As(why, &d) {
		denial = *d
	}
	now := time.Now()
	by := make([]layer, len(rs))
	var locals []int
	allowed := true // all requests but shadows
	for i := range rs {
		if d, ok := denial.Denied[i]; ok {
			out[i], by[i], allowed = d, byStore, false
			continue
		}
		var isLocal bool
		if out[i], by[i], isLocal = s.fallBackOne(&rs[i], now); isLocal {
			locals = append(locals, i)
			continue
		}
		allowed = allowed && (out[i].Allowed || rs[i].Shadow)
	}
	if len(locals) > 0 {
		ok, err := s.localBatch(ctx, rs, out, locals, allowed)
		if err != nil {
			return localError(err, why)
		}
		allowed = allowed && ok
	}
	for i := range rs {
		switch {
		case !allowed && !rs[i].Shadow && !rs[i].Debit:
			out[i].Receipt = sluice.Receipt{} // nothing was charged
		case out[i].Allowed && takesLease(&rs[i]) && !rs[i].Peek && by[i] != byStore:
			s.leases.put(s.leases.id(rs[i].Limit, rs[i].Key, rs[i].Member), &rs[i], &out[i], by[i], now)
		}
	}
	return nil
}

// fallBackOne decides one request of a batch, unless its fallback is FallbackLocal. A lease that is
// held stays with the layer that granted it.
func (s *Store) fallBackOne(r *sluice.Request, now time.Time) (d sluice.Decision, by layer, isLocal bool) {
	f := s.fallbackOf(r.Limit)
	if takesLease(r) {
		id := s.leases.id(r.Limit, r.Key, r.Member)
		if held, ok := s.leases.get(id, now); ok {
			switch held.by {
			case byStore:
				return s.hold(id, r, held, now), byStore, false
			case byLocal:
				f = sluice.FallbackLocal
			default:
				f = sluice.FallbackAllow
			}
		}
	}
	switch f {
	case sluice.FallbackLocal:
		return d, byLocal, true
	case sluice.FallbackAllow:
		return s.allow(r), byNobody, false
	default:
		return s.deny(r), byStore, false
	}
}

// localBatch decides the requests of a batch whose fallback is FallbackLocal. Unless charge is set, it
// charges only shadows, which are decided on their own, and debits.
func (s *Store) localBatch(ctx context.Context, rs []sluice.Request, out []sluice.Decision, locals []int, charge bool) (allowed bool, err error) {
	qs, ds := make([]sluice.Request, len(locals)), make([]sluice.Decision, len(locals))
	for j, i := range locals {
		qs[j] = s.local(&rs[i])
		qs[j].Peek = qs[j].Peek || !charge && !qs[j].Shadow && !qs[j].Debit
	}
	if err := s.o.Local.DecideAll(ctx, qs, ds); err != nil {
		return false, err
	}
	allowed = true
	for j, i := range locals {
		d := &ds[j]
		s.fromLocal(&rs[i], d)
		if d.Allowed {
			d.Receipt = mark(d.Receipt, byLocal)
		} else if !rs[i].Shadow {
			allowed = false
		}
		out[i] = *d
	}
	return allowed, nil
}

// decideLocally decides a request by the local version of its limit.
func (s *Store) decideLocally(ctx context.Context, r *sluice.Request, why error) (sluice.Decision, error) {
	d, err := s.o.Local.Decide(ctx, s.local(r))
	if err != nil {
		return sluice.Decision{}, localError(err, why)
	}
	s.fromLocal(r, &d)
	if d.Allowed {
		d.Receipt = mark(d.Receipt, byLocal)
	}
	return d, nil
}

// local returns a request under the local version of its limit.
func (s *Store) local(r *sluice.Request) sluice.Request {
	q := *r
	q.Limit = s.scaler.limit(r.Limit)
	q.Floor = s.scaler.floor(r.Limit, q.Limit, r.Floor)
	return q
}

// fromLocal completes a decision of the local store.
func (s *Store) fromLocal(r *sluice.Request, d *sluice.Decision) {
	s.locals.Add(1)
	d.Degraded = true
	if d.Reason != sluice.ReasonNever {
		return
	}
	if result := fresh(r); result.Reason != algo.Never {
		// Too much for the share, but not for the limit.
		d.Reason, d.RetryAfter = sluice.ReasonLimited, s.retryAfter(r)
	}
}

// localError returns the error when the local store has failed, too.
func localError(err, why error) error {
	if why == nil || isAnswer(err) {
		return err
	}
	return fmt.Errorf("guard: the local store failed: %w; and so did the store: %w", err, why)
}

// allow decides as the limit does for a key that has used nothing.
func (s *Store) allow(r *sluice.Request) sluice.Decision {
	s.allows.Add(1)
	result := fresh(r)
	d := sluice.Decision{
		Allowed:    result.Allowed,
		Reason:     sluice.Reason(result.Reason),
		Degraded:   true,
		Limit:      r.Limit.Capacity(),
		Remaining:  result.Remaining,
		Delay:      translate.Duration(result.Delay),
		ResetAfter: translate.Duration(result.ResetAfter),
	}
	if d.Allowed {
		d.Receipt = mark(sluice.Receipt{}, byNobody)
	}
	return d
}

// deny refuses a request. It sets RetryAfter unless the limit never admits the request.
func (s *Store) deny(r *sluice.Request) sluice.Decision {
	s.denials.Add(1)
	d := sluice.Decision{Reason: sluice.ReasonStoreError, Degraded: true, Limit: r.Limit.Capacity()}
	if result := fresh(r); result.Reason == algo.Never {
		d.Reason = sluice.ReasonNever // also when the store is back
	} else {
		d.RetryAfter = s.retryAfter(r)
	}
	return d
}

// retryAfter returns the time until the store may decide a request again.
func (s *Store) retryAfter(r *sluice.Request) time.Duration {
	return max(leastRetry, s.lanes.of(r.Key).breaker.untilNext())
}

// fresh returns the result of a request for a key that has used nothing.
func fresh(r *sluice.Request) (result algo.Result) {
	p := r.Limit.Params()
	q := translate.Request(r)
	q.Now = time.Now().UnixMicro()
	var words []uint64
	if !p.Inline() {
		least, _ := p.Words()
		words = make([]uint64, least)
	}
	if r.Peek {
		p.Peek(algo.State{}, words, &q, &result)
	} else {
		p.Evaluate(algo.State{}, words, &q, &result)
	}
	return result
}
