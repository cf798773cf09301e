package policy

import (
	"fmt"
	"slices"
)

// StatusRange is a range of statuses, both ends included.
type StatusRange struct{ From, To int }

// Status is the range of one status.
func Status(code int) StatusRange { return StatusRange{code, code} }

// counts reports whether a response with this status counts.
func (r *Rule) counts(status int) bool {
	return len(r.CountStatus) == 0 || slices.ContainsFunc(r.CountStatus, func(s StatusRange) bool { return s.From <= status && status <= s.To })
}

// checkStatuses checks which statuses count.
func (c *compiler) checkStatuses(r *Rule) {
	for i, s := range r.CountStatus {
		if s.From < 100 || s.To > 599 || s.From > s.To {
			c.report(fmt.Sprintf("CountStatus[%d]", i), "", fault{fmt.Sprintf("is %d to %d", s.From, s.To), "give a range within 100 to 599"})
		}
	}
}
