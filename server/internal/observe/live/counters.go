package live

import (
	"container/heap"

	"github.com/sluicehq/sluice"
)

// mostCounters is the number of keys that are counted for a rule in a window.
const mostCounters = 512

// keyID identifies a key of a rule: by the key, or by its digest if its text is too long to be kept.
type keyID struct {
	key    sluice.Key
	digest string
}

// counter counts the denials of a key.
type counter struct {
	DeniedKey

	at int // in the heap
}

// counters count the keys of a rule that are denied most in a window, by the algorithm Space-Saving of Metwally, Agrawal and
// El Abbadi (2005). A key without a counter takes the counter of the key with the fewest denials, and its count as the error.
// So a key with more than one of 512 denials has a counter, and no count is too low.
type counters struct {
	byKey map[keyID]*counter
	least leastFirst
}

// leastFirst is a heap of counters. Of equal counts, the oldest denial comes first.
type leastFirst []*counter

func (h leastFirst) Len() int { return len(h) }

func (h leastFirst) Less(i, j int) bool {
	if h[i].Denials != h[j].Denials {
		return h[i].Denials < h[j].Denials
	}
	return h[i].Last.Before(h[j].Last)
}

func (h leastFirst) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push adds a counter.
func (h *leastFirst) Push(x any) {
	c := x.(*counter)
	c.at = len(*h)
	*h = append(*h, c)
}

// Pop is not used: a counter is never removed.
func (h *leastFirst) Pop() any { panic("live: counters are replaced, and not removed") }

// missed is the most denials that a key without a counter may have.
func (c *counters) missed() uint64 {
	if len(c.least) < mostCounters {
		return 0
	}
	return c.least[0].Denials
}

// count counts a denial. The function keep returns the key with a text of its own.
func (c *counters) count(id keyID, denied *DeniedKey, keep func(keyID) keyID) {
	k := c.byKey[id]
	switch {
	case k != nil:
	case len(c.least) < mostCounters:
		if c.byKey == nil {
			c.byKey = map[keyID]*counter{}
		}
		id = keep(id)
		k = &counter{DeniedKey: DeniedKey{Rule: denied.Rule, Key: id.key, Digest: id.digest, First: denied.Last, Last: denied.Last}}
		heap.Push(&c.least, k)
		c.byKey[id] = k
	default:
		k = c.least[0]
		delete(c.byKey, keyID{k.Key, k.Digest})
		id = keep(id)
		k.Key, k.Digest, k.Error, k.First = id.key, id.digest, k.Denials, denied.Last
		c.byKey[id] = k
	}
	k.Limit, k.Role, k.Reason, k.Last = denied.Limit, denied.Role, denied.Reason, denied.Last
	k.Denials++
	heap.Fix(&c.least, k.at)
}
