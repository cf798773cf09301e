package laws

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/oracle"
)

// decide returns the decision that the oracle expects, the charge, and the state after it.
func decide(s oracle.State, r oracle.Request, got sluice.Decision) (sluice.Decision, oracle.Charge, oracle.State) {
	d, c, next := oracle.Decide(s, r, guess(got))
	return decision(d), c, next
}

// peek returns the decision that the oracle expects of a peek.
func peek(s oracle.State, r oracle.Request, got sluice.Decision) sluice.Decision {
	return decision(oracle.Peek(s, r, guess(got)))
}

// guess returns the times of the store's decision, where the oracle begins its search.
func guess(got sluice.Decision) oracle.Result {
	return oracle.Result{RetryAfter: us(got.RetryAfter), ResetAfter: us(got.ResetAfter)}
}

// reasons are the reasons of a decision for the oracle's words.
var reasons = map[oracle.Reason]sluice.Reason{
	oracle.None: sluice.ReasonNone, oracle.Limited: sluice.ReasonLimited,
	oracle.TooSoon: sluice.ReasonTooSoon, oracle.Never: sluice.ReasonNever,
}

func decision(d oracle.Result) sluice.Decision {
	return sluice.Decision{
		Allowed: d.Allowed, Reason: reasons[d.Reason], Remaining: d.Remaining,
		Delay: micros(d.Delay), RetryAfter: micros(d.RetryAfter), ResetAfter: micros(d.ResetAfter),
	}
}

// same compares what callers see of a decision. The oracle has neither capacities nor receipts.
func same(got, want sluice.Decision) bool {
	want.Limit, got.Receipt = got.Limit, sluice.Receipt{}
	return got == want
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
