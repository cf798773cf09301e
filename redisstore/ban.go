package redisstore

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// banTerms puts the terms of a ban in those of its algorithm.
func banTerms(b *sluice.Ban) algo.Ban {
	t := algo.Ban{After: b.After, Within: int64(b.Within / time.Microsecond), For: int64(b.For / time.Microsecond)}
	if t.Within == 0 {
		t.Within = t.For
	}
	return t
}

// withBan returns what a request is told whose ban was in a state when its limit
// answered d.
func withBan(terms algo.Ban, state algo.State, d sluice.Decision, now int64) sluice.Decision {
	if end := terms.Banned(state, now); end > 0 {
		left := duration(end - now)
		return sluice.Decision{
			Reason: sluice.ReasonBanned, Limit: d.Limit,
			RetryAfter: max(left, d.RetryAfter), ResetAfter: max(left, d.ResetAfter),
		}
	}
	if d.Allowed {
		return d
	}
	if end := terms.Banned(terms.Denied(state, now), now); end > 0 {
		left := duration(end - now)
		d.ResetAfter = max(d.ResetAfter, left)
		if d.Reason != sluice.ReasonNever {
			d.RetryAfter = max(d.RetryAfter, left)
		}
	}
	return d
}
