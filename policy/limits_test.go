package policy

import "github.com/sluicehq/sluice"

// testLimits returns one limit, for tests in which any limit will do.
func testLimits() []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100)})}
}
