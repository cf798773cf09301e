package policy

import "fmt"

// The queues of rules: what is enough for most, and what is the most.
const (
	defaultQueue = 1024
	maxQueue     = 1_000_000
)

// checkQueue checks how many may wait, and fills in the defaults.
func (c *compiler) checkQueue(r *Rule) {
	if r.Queue < 0 || r.Queue > maxQueue {
		remedy := fmt.Sprintf("give 1 to %d, or 0 for %d", maxQueue, defaultQueue)
		if r.Queue < 0 {
			remedy += "; to let nobody wait, set MaxWait to sluice.NoWait"
		}
		c.report("Queue", "", is(r.Queue, remedy))
		return
	}
	if r.Queue == 0 {
		r.Queue = max(defaultQueue, r.QueuePerKey)
	}
	if r.QueuePerKey < 0 || r.QueuePerKey > r.Queue {
		c.report("QueuePerKey", "", is(r.QueuePerKey, fmt.Sprintf("give 1 to %d, the size of the whole queue, or 0 for a quarter of it", r.Queue)))
	}
	if r.QueuePerKey == 0 {
		r.QueuePerKey = max(1, r.Queue/4)
	}
}
