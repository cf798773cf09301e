package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// leastRetry is the least RetryAfter of what is denied because the store is down.
const leastRetry = time.Second

// standIn answers a request that the store did not, and says who granted it.
func (s *Store) standIn(ctx context.Context, r *sluice.Request, why error) (sluice.Decision, layer, error) {
	if err := r.Check(); err != nil {
		return sluice.Decision{}, byStore, err
	}
	switch s.fallbackOf(r.Limit) {
	case Local:
		d, err := s.decideLocally(ctx, r, why)
		return d, byLocal, err
	case Allow:
		return s.allow(r), byNobody, nil
	default:
		return s.deny(r), byStore, nil
	}
}

// decideLocally answers a request by the local version of its limit.
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

// local returns a request in the terms of the local version of its limit.
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
	if ans := fresh(r); ans.Reason != algo.Never {
		// Too much for a share, but not for the limit.
		d.Reason, d.RetryAfter = sluice.ReasonLimited, s.again()
	}
}

// localError returns the error of a local store that failed too.
func localError(err, why error) error {
	if why == nil || isAnswer(err) {
		return err
	}
	return fmt.Errorf("guard: the local store failed: %w; in place of one that did: %w", err, why)
}

// allow answers as the limit does for a key that has used nothing.
func (s *Store) allow(r *sluice.Request) sluice.Decision {
	s.allows.Add(1)
	ans := fresh(r)
	d := sluice.Decision{
		Allowed:    ans.Allowed,
		Reason:     sluice.Reason(ans.Reason),
		Degraded:   true,
		Limit:      r.Limit.Capacity(),
		Remaining:  ans.Remaining,
		Delay:      translate.Duration(ans.Delay),
		ResetAfter: translate.Duration(ans.ResetAfter),
	}
	if d.Allowed {
		d.Receipt = mark(sluice.Receipt{}, byNobody)
	}
	return d
}

// deny refuses a request, and says when to ask again, unless the limit never lets it pass.
func (s *Store) deny(r *sluice.Request) sluice.Decision {
	s.denials.Add(1)
	d := sluice.Decision{Reason: sluice.ReasonStoreError, Degraded: true, Limit: r.Limit.Capacity()}
	if ans := fresh(r); ans.Reason == algo.Never {
		d.Reason = sluice.ReasonNever // also when the store is back
	} else {
		d.RetryAfter = s.again()
	}
	return d
}

// again returns when to come back for an answer of the store.
func (s *Store) again() time.Duration { return max(leastRetry, s.breaker.untilNext()) }

// fresh answers a request for a key that has used nothing, as of now.
func fresh(r *sluice.Request) (ans algo.Result) {
	p := r.Limit.Params()
	a := translate.Request(r)
	a.Now = time.Now().UnixMicro()
	var words []uint64
	if !p.Inline() {
		least, _ := p.Words()
		words = make([]uint64, least)
	}
	if r.Peek {
		p.Peek(algo.State{}, words, &a, &ans)
	} else {
		p.Evaluate(algo.State{}, words, &a, &ans)
	}
	return ans
}
