package translate

import (
	"math"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// Tell writes an answer into a decision, which is zero so far.
func Tell(d *sluice.Decision, p *algo.Params, ans *algo.Result) {
	d.Allowed = ans.Allowed
	d.Reason = sluice.Reason(ans.Reason)
	d.Limit = p.Capacity
	d.Remaining = ans.Remaining
	d.Delay = Duration(ans.Delay)
	d.RetryAfter = Duration(ans.RetryAfter)
	d.ResetAfter = Duration(ans.ResetAfter)
	d.Receipt.At = ans.At
	d.Receipt.Over = ans.Over
}

// Decision returns the decision that an answer is.
func Decision(p *algo.Params, ans *algo.Result) (d sluice.Decision) {
	Tell(&d, p, ans)
	return d
}

// Duration returns microseconds as a time.Duration, or the longest one that it holds.
func Duration(micros int64) time.Duration {
	return time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond
}
