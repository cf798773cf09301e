package policy

import "github.com/sluicehq/sluice"

// testLimits is one limit, whichever.
func testLimits() []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100)})}
}
