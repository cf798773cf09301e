package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// clockLimit is never charged: a decision about it has the store's time in its receipt.
var clockLimit = sluice.MustLimit("(clock)", sluice.FixedWindow{Rate: sluice.PerSecond(1)})

// giveUnitsBack carries out the refunds, and decides their requests again, which still take nothing.
func (s *scratch) giveUnitsBack(ctx context.Context, store sluice.Store) {
	for i := range s.selected {
		q := &s.selected[i]
		if q.refund == 0 || !q.filled {
			continue
		}
		q.err = s.refundAll(ctx, store, q)
		q.refunded = q.err == nil
		n := q.results()
		out := make([]sluice.Decision, n)
		if err := store.DecideAll(ctx, s.requests[q.at:q.at+n], out); err != nil {
			q.err = errors.Join(q.err, err)
			continue
		}
		copy(s.decisions[q.at:], out)
	}
}

// refundAll gives units back to all limits of a rule. If one algorithm cannot take them, none gets them.
func (s *scratch) refundAll(ctx context.Context, store sluice.Store, q *selection) error {
	for j := range q.set.requests {
		if l := q.set.requests[j].Limit; !Refunds(l) {
			return fmt.Errorf("policy: rule %q: a %s cannot take units back: %w", q.rule.Name, kindName(l), errors.ErrUnsupported)
		}
	}
	var errs []error
	for j := range q.set.requests {
		r := &s.requests[q.at+j]
		charge := sluice.Charge{Limit: r.Limit, Key: r.Key, Cost: q.refund, Receipt: s.decisions[q.at+j].Receipt}
		if charge.Receipt.Over = 0; charge.Receipt.At == 0 {
			now, err := store.Decide(ctx, sluice.Request{Limit: clockLimit, Key: r.Key, Peek: true})
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			charge.Receipt.At = now.Receipt.At
		}
		errs = append(errs, store.Settle(ctx, charge, 0))
	}
	return errors.Join(errs...)
}

// Refunds reports whether units of a limit can be given back without the receipt of their charge. A token bucket
// and a fixed window take back what they have given. A sliding window and a sliding counter take back what they
// have given in the current cell or window. The other algorithms need the receipt.
func Refunds(l *sluice.Limit) bool {
	switch l.Params().Kind {
	case algo.KindBucket, algo.KindFixedWindow, algo.KindSlidingWindow, algo.KindSlidingCounter:
		return true
	default:
		return false
	}
}

// kindName returns the algorithm of a limit in words.
func kindName(l *sluice.Limit) string {
	switch l.Params().Kind {
	case algo.KindLeaky:
		return "leaky bucket"
	case algo.KindSlidingLog:
		return "sliding log"
	case algo.KindWarmBucket:
		return "token bucket with a warm-up"
	default:
		return "concurrency limit"
	}
}
