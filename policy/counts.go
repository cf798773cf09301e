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

func (c *Counts) check(report func(field, value, problem string)) {
	if c.Attempts && len(c.Statuses) > 0 {
		report("Counts.Attempts", "", "is set with statuses, which only requests that were allowed have; give one of them")
	}
	for i, r := range c.Statuses {
		if r.From < 100 || r.To > 599 || r.From > r.To {
			report(fmt.Sprintf("Counts.Statuses[%d]", i), "", fmt.Sprintf("is %d to %d; give a range within 100 to 599", r.From, r.To))
		}
	}
}

// attempts returns the algorithm with denied attempts counted; problem says why that cannot be.
func (c *Counts) attempts(a sluice.Algorithm) (counting sluice.Algorithm, problem string) {
	if !c.Attempts {
		return a, ""
	}
	switch a := a.(type) {
	case sluice.FixedWindow:
		a.CountDenied = true
		return a, ""
	case sluice.SlidingWindow:
		a.CountDenied = true
		return a, ""
	case sluice.SlidingCounter:
		a.CountDenied = true
		return a, ""
	case sluice.SlidingLog:
		a.CountDenied = true
		return a, ""
	}
	return a, fmt.Sprintf("is %v, which cannot count denied attempts; give a fixed window, a sliding window, a sliding counter or a sliding log, or leave out Counts.Attempts", a)
}
