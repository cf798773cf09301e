package policy

import (
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
)

// Counts says which requests count against a rule's limits. The zero Counts is
// for those that are allowed.
type Counts struct {
	// Attempts counts denied requests too, so that who keeps hammering stays
	// refused. All limits must be windows, counters or logs, which alone can; it sets their
	// CountDenied. A request that this rule would let pass, and another refuses, is not counted.
	Attempts bool
	// Statuses counts only requests whose response has one of these statuses, such as 401
	// for failed logins. The units are taken before the request is handled, so that many at once do not
	// pass, and given back after if the status is another one.
	Statuses []StatusRange
}

// StatusRange is a range of statuses, both ends included.
type StatusRange struct{ From, To int }

// Status is the range of one status.
func Status(code int) StatusRange { return StatusRange{code, code} }

// counts reports whether a response with this status counts.
func (c *Counts) counts(status int) bool {
	return len(c.Statuses) == 0 || slices.ContainsFunc(c.Statuses, func(r StatusRange) bool { return r.From <= status && status <= r.To })
}

func (c *Counts) check(report func(field, value string, f fault)) {
	if c.Attempts && len(c.Statuses) > 0 {
		report("Counts.Attempts", "", fault{"is set, and statuses are given, which only allowed requests have", "give one of them"})
	}
	for i, r := range c.Statuses {
		if r.From < 100 || r.To > 599 || r.From > r.To {
			report(fmt.Sprintf("Counts.Statuses[%d]", i), "", fault{fmt.Sprintf("is %d to %d", r.From, r.To), "give a range within 100 to 599"})
		}
	}
}

// attempts returns the algorithm with denied attempts counted, or why it cannot count them.
func (c *Counts) attempts(a sluice.Algorithm) (counting sluice.Algorithm, f fault) {
	if !c.Attempts {
		return a, f
	}
	switch a := a.(type) {
	case sluice.FixedWindow:
		a.CountDenied = true
		return a, f
	case sluice.SlidingWindow:
		a.CountDenied = true
		return a, f
	case sluice.SlidingCounter:
		a.CountDenied = true
		return a, f
	case sluice.SlidingLog:
		a.CountDenied = true
		return a, f
	}
	return a, fault{
		fmt.Sprintf("is %v, which cannot count denied attempts", a),
		"give a fixed window, a sliding window, a sliding counter or a sliding log, or count allowed requests only",
	}
}
