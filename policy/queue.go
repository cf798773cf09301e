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
		c.report("Queue", "", fmt.Sprintf("is %d; give 1 to %d, or 0 for %d; to let nobody wait, set MaxWait to sluice.NoWait", r.Queue, maxQueue, defaultQueue))
		return
	}
	if r.Queue == 0 {
		r.Queue = max(defaultQueue, r.QueuePerKey)
	}
	if r.QueuePerKey < 0 || r.QueuePerKey > r.Queue {
		c.report("QueuePerKey", "", fmt.Sprintf("is %d; give 1 to %d, which is the queue, or 0 for a quarter of it", r.QueuePerKey, r.Queue))
	}
	if r.QueuePerKey == 0 {
		r.QueuePerKey = max(1, r.Queue/4)
	}
}
