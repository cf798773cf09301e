package live

import (
	"container/heap"
	"time"

	"github.com/sluicehq/sluice"
)

const (
	// mostCounters is the number of denied keys that are counted for a rule in a window.
	mostCounters = 512
	// mostAllowed is the number of allowed keys.
	mostAllowed = 128
)

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

// counters count the keys of a rule that are denied most in a window, up to most, by the algorithm Space-Saving of
// Metwally, Agrawal and El Abbadi (2005). A key without a counter takes the counter of the key with the fewest denials,
// and its count as the error. So a key with more than one of 512 denials has a counter, and no count is too low.
type counters struct {
	most  int
	byKey map[keyID]*counter
	least leastFirst
}

// missed is the most denials that a key without a counter may have.
func (c *counters) missed() uint64 {
	if len(c.least) < c.most {
		return 0
	}
	return c.least[0].Denials
}

// count counts a denial, and returns the counter.
func (c *counters) count(id keyID, now time.Time) *counter {
	k := c.byKey[id]
	if k == nil {
		if len(c.least) < c.most {
			k = new(counter)
			heap.Push(&c.least, k)
		} else {
			k = c.least[0]
			delete(c.byKey, keyID{k.Key, k.Digest})
		}
		id = kept(id)
		k.DeniedKey = DeniedKey{Key: id.key, Digest: id.digest, Denials: k.Denials, Error: k.Denials, First: now}
		if c.byKey == nil {
			c.byKey = map[keyID]*counter{}
		}
		c.byKey[id] = k
	}
	k.Denials++
	k.Last = now
	heap.Fix(&c.least, k.at)
	return k
}

// leastFirst is a heap of package heap: the fewest denials first; of equal counts, the oldest denial.
type leastFirst []*counter

func (l leastFirst) Len() int { return len(l) }

func (l leastFirst) Less(i, j int) bool {
	return l[i].Denials < l[j].Denials || l[i].Denials == l[j].Denials && l[i].Last.Before(l[j].Last)
}

func (l leastFirst) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

// Push adds a counter at the end.
func (l *leastFirst) Push(x any) {
	k := x.(*counter)
	k.at = len(*l)
	*l = append(*l, k)
}

// Pop is never called: a counter is given to another key, and not removed.
func (l *leastFirst) Pop() any { return nil }
