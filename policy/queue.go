package policy

import "fmt"

// The sizes of waiting queues: the default, and the largest.
const (
	defaultQueue = 1024
	maxQueue     = 1_000_000
)

// checkQueue checks how many may wait, and fills in the defaults.
func (c *compiler) checkQueue(r *Rule) {
	if r.MaxWaiting < 0 || r.MaxWaiting > maxQueue {
		remedy := fmt.Sprintf("give 1 to %d, or 0 for %d", maxQueue, defaultQueue)
		if r.MaxWaiting < 0 {
			remedy += "; to let nobody wait, set MaxWait to sluice.NoWait"
		}
		c.report("MaxWaiting", "", is(r.MaxWaiting, remedy))
		return
	}
	if c.single && r.MaxWaiting == 0 {
		return // the gate's own bound holds
	}
	if r.MaxWaiting == 0 {
		r.MaxWaiting = max(defaultQueue, r.MaxWaitingPerKey)
	}
	if r.MaxWaitingPerKey < 0 || r.MaxWaitingPerKey > r.MaxWaiting {
		c.report("MaxWaitingPerKey", "", is(r.MaxWaitingPerKey, fmt.Sprintf("give 1 to %d, the number that may wait in all, or 0 for a quarter of it", r.MaxWaiting)))
	}
	if r.MaxWaitingPerKey == 0 {
		r.MaxWaitingPerKey = max(1, r.MaxWaiting/4)
	}
}
