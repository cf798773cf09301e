package translate

import (
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// Banned returns the decision about a key that is banned for so many microseconds, and
// would be d otherwise: it passes when both the ban and the limit let it.
func Banned(micros int64, d *sluice.Decision) sluice.Decision {
	left := Duration(micros)
	return sluice.Decision{
		Reason: sluice.ReasonBanned, Limit: d.Limit,
		RetryAfter: max(left, d.RetryAfter), ResetAfter: max(left, d.ResetAfter),
	}
}

// Denied returns the state of a ban after a decision, if that counts as a denial, and
// adds to the decision how long the key is banned for it.
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

// InForce completes a ban by what its state tells, and reports whether it is in force.
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
