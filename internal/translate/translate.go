// Package translate holds the code that all our stores share, wherever they keep their state. It
// converts requests into requests of package algo, and results of package algo into decisions.
package translate

import (
	"fmt"
	"math"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// Request converts a request for package algo, without the time. A peek charges no debit.
func Request(r *sluice.Request) algo.Request {
	return algo.Request{Cost: r.Cost, Floor: r.Floor, MaxWait: MaxWait(r.MaxWait), Member: r.Member, Debit: r.Debit && !r.Peek, Overdraw: r.Overdraw}
}

// MaxWait returns a wait in whole microseconds, rounded down. A negative wait, or a positive one
// of less than a microsecond, becomes -1: no wait.
func MaxWait(d time.Duration) int64 {
	if d < 0 || 0 < d && d < time.Microsecond {
		return -1
	}
	return int64(d / time.Microsecond)
}

// Fill writes a result into a decision, which must be zero.
func Fill(d *sluice.Decision, p *algo.Params, result *algo.Result) {
	d.Allowed = result.Allowed
	d.Reason = sluice.Reason(result.Reason)
	d.Limit = p.Capacity
	d.Remaining = result.Remaining
	d.Delay = Duration(result.Delay)
	d.RetryAfter = Duration(result.RetryAfter)
	d.ResetAfter = Duration(result.ResetAfter)
	d.Receipt.At = result.At
	d.Receipt.Over = result.Over
}

// Decision returns a result as a decision.
func Decision(p *algo.Params, result *algo.Result) (d sluice.Decision) {
	Fill(&d, p, result)
	return d
}

// Duration returns microseconds as a time.Duration. A longer time than a time.Duration holds
// becomes the longest duration of whole microseconds.
func Duration(micros int64) time.Duration {
	return time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond
}

// CheckCancel returns an error if a charge cannot be cancelled.
func CheckCancel(c *sluice.Charge) error {
	if c.Limit == nil {
		return &sluice.RequestError{Problem: "the charge has no limit"}
	}
	return nil
}

// CheckSettle returns an error if a charge cannot be settled at an actual cost.
func CheckSettle(c *sluice.Charge, actual int64) error {
	if err := CheckCancel(c); err != nil {
		return err
	}
	switch {
	case actual < 0:
		return &sluice.RequestError{Limit: c.Limit.Name(), Problem: "the actual cost is negative; give 0 or more"}
	case c.Limit.IsConcurrency():
		return fmt.Errorf("%w: limit %q grants leases, which are released, not settled", sluice.ErrUnsupported, c.Limit.Name())
	}
	return nil
}

// CheckRelease returns an error if a charge is not a lease that can be released.
func CheckRelease(c *sluice.Charge) error {
	if err := CheckCancel(c); err != nil {
		return err
	}
	if !c.Limit.IsConcurrency() {
		return fmt.Errorf("%w: limit %q grants no leases", sluice.ErrUnsupported, c.Limit.Name())
	}
	return nil
}

// Banned returns the decision about a key that is banned for micros microseconds. d is the
// decision without the ban. The times of the result are the later ones: both the ban and the limit
// must admit the key.
func Banned(micros int64, d *sluice.Decision) sluice.Decision {
	left := Duration(micros)
	return sluice.Decision{
		Reason: sluice.ReasonBanned, Limit: d.Limit,
		RetryAfter: max(left, d.RetryAfter), ResetAfter: max(left, d.ResetAfter),
	}
}

// Denied returns the state of a ban after a decision, and whether the decision counted as a
// denial. If the denial bans the key, Denied extends ResetAfter to the end of the ban, and
// RetryAfter too, unless the reason is never.
func Denied(b *algo.Ban, state algo.State, d *sluice.Decision, now int64) (next algo.State, counts bool) {
	if d.Allowed || d.Reason == sluice.ReasonTableFull {
		return state, false
	}
	next = b.Denied(state, now)
	if end := b.Banned(next, now); end > 0 {
		left := Duration(end - now)
		d.ResetAfter = max(d.ResetAfter, left)
		if d.Reason != sluice.ReasonNever {
			d.RetryAfter = max(d.RetryAfter, left)
		}
	}
	return next, next != state
}

// InForce completes a ban from its state, and reports whether it is in force.
func InForce(b *sluice.BannedKey, state algo.State, now int64) bool {
	end := (&algo.Ban{}).Banned(state, now)
	if end == 0 {
		return false
	}
	b.Left = Duration(end - now)
	if c := algo.CountOf(state.V); c.Level == algo.BanByHand {
		b.ByHand = true
	} else {
		b.InRow = int(c.Level)
	}
	return true
}

// CheckBan reports why a store cannot ban a key by hand for a time, with a
// *sluice.RequestError. It returns nil for a valid ban.
func CheckBan(l *sluice.Limit, d time.Duration) error {
	const longest = 100 * 365 * 24 * time.Hour
	switch {
	case l == nil:
		return &sluice.RequestError{Problem: "has no limit"}
	case d < time.Millisecond || d > longest:
		return &sluice.RequestError{Limit: l.Name(), Problem: fmt.Sprintf("a ban lasts for %v; give a millisecond to 100 years", d)}
	}
	return nil
}

// CompleteBanQuery returns the query with its default filled in, or a *sluice.RequestError.
func CompleteBanQuery(q sluice.BanQuery) (sluice.BanQuery, error) {
	switch {
	case q.Most == 0:
		q.Most = 100
	case q.Most < 0 || q.Most > 1000:
		return q, &sluice.RequestError{Problem: fmt.Sprintf("for a page of %d bans: give 1 to 1000", q.Most)}
	}
	return q, nil
}
