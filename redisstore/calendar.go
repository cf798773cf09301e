package redisstore

import (
	"slices"

	"github.com/sluicehq/sluice/algo"
)

// bounds returns, in order, the boundaries of the periods that hold some times, of
// the one before and of three to come. Between times that are far apart some are
// missing, which a script sees by their distance.
func bounds(c *algo.Calendar, around ...int64) []int64 {
	const ahead = 3
	all := make([]int64, 0, (3+ahead)*len(around))
	for _, t := range around {
		start, end := c.Start(t), c.End(t)
		all = append(all, c.Start(start-1), start, end)
		for range ahead {
			end = c.End(end)
			all = append(all, end)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
