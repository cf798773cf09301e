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

// separateRefunds lets the requests of refunds neither take units nor deny the batch.
func (c *call) separateRefunds() {
	for i := range c.selected {
		if s := &c.selected[i]; s.refund > 0 && s.filled {
			for j := range s.set.requests {
				c.scratch.requests[s.at+j].Shadow = true
				c.scratch.requests[s.at+j].Ban = nil
			}
		}
	}
}

// setRefundRoles excludes the results of refunds from the verdict.
func (c *call) setRefundRoles() {
	at := 0
	for i := range c.selected {
		s := &c.selected[i]
		n := len(s.set.requests)
		if s.fixed() {
			n = min(n, 1)
		}
		for j := range n {
			if m := &c.v.Results[at+j]; s.refund > 0 && m.Role != RoleCandidate {
				m.Role = RoleRefund
			}
		}
		at += n
	}
}

// giveUnitsBack carries out the refunds, and decides their requests again, which still take nothing.
func (c *call) giveUnitsBack(ctx context.Context, store sluice.Store) {
	at := -1
	for i := range c.v.Descriptors {
		d := &c.v.Descriptors[i]
		if d.Rule == nil || d.Unlimited || d.Replaced {
			continue
		}
		at++
		s := &c.selected[at]
		if s.refund == 0 || !s.filled {
			continue
		}
		d.Err = c.refundAll(ctx, store, s)
		d.Refunded = d.Err == nil
		rs := c.scratch.requests[s.at : s.at+len(s.set.requests)]
		out := make([]sluice.Decision, len(rs))
		if err := store.DecideAll(ctx, rs, out); err != nil {
			d.Err = errors.Join(d.Err, err)
			continue
		}
		copy(c.decisions[s.at:], out)
	}
}

// failRefunds notes why units were not given back in a call that the store could not decide.
func (c *call) failRefunds(err error) {
	for i := range c.requests {
		if d := &c.v.Descriptors[i]; c.requests[i].Refund && d.Rule != nil && !d.Unlimited && !d.Replaced {
			d.Err = err
		}
	}
}

// refundAll gives units back to all limits of a rule. If one algorithm cannot take them, none gets them.
func (c *call) refundAll(ctx context.Context, store sluice.Store, s *selection) error {
	for j := range s.set.requests {
		if l := s.set.requests[j].Limit; !Refunds(l) {
			return fmt.Errorf("policy: rule %q: a %s cannot take units back: %w", s.rule.Name, kindName(l), errors.ErrUnsupported)
		}
	}
	var errs []error
	for j := range s.set.requests {
		r := &c.scratch.requests[s.at+j]
		charge := sluice.Charge{Limit: r.Limit, Key: r.Key, Cost: s.refund, Receipt: c.decisions[s.at+j].Receipt}
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
