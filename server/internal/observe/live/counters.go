package live

import (
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

// counters count the keys of a rule that are denied most in a window, up to most, by the algorithm Space-Saving of Metwally, Agrawal and
// El Abbadi (2005). A key without a counter takes the counter of the key with the fewest denials, and its count as the error.
// So a key with more than one of 512 denials has a counter, and no count is too low.
type counters struct {
	most  int
	byKey map[keyID]*counter
	least []*counter // a heap: the fewest denials first; of equal counts, the oldest denial
}

// missed is the most denials that a key without a counter may have.
func (c *counters) missed() uint64 {
	if len(c.least) < c.most {
		return 0
	}
	return c.least[0].Denials
}

// count counts a denial, and returns the counter. The function keep returns the key with a text of its own.
func (c *counters) count(id keyID, now time.Time, keep func(keyID) keyID) *counter {
	k := c.byKey[id]
	switch {
	case k != nil:
	case len(c.least) < c.most:
		if c.byKey == nil {
			c.byKey = map[keyID]*counter{}
		}
		id = keep(id)
		k = &counter{at: len(c.least)}
		k.Key, k.Digest, k.First = id.key, id.digest, now
		c.least = append(c.least, k)
		c.rise(k)
		c.byKey[id] = k
	default:
		k = c.least[0]
		delete(c.byKey, keyID{k.Key, k.Digest})
		id = keep(id)
		k.Key, k.Digest, k.Error, k.First, k.Trial = id.key, id.digest, k.Denials, now, Trial{}
		c.byKey[id] = k
	}
	k.Denials++
	k.Last = now
	c.sink(k)
	return k
}

// before reports whether a counter is given to another key before another counter.
func (k *counter) before(other *counter) bool {
	return k.Denials < other.Denials || k.Denials == other.Denials && k.Last.Before(other.Last)
}

// rise moves a new counter up, which has no denial yet.
func (c *counters) rise(k *counter) {
	for k.at > 0 {
		above := c.least[(k.at-1)/2]
		if !k.before(above) {
			return
		}
		c.swap(k, above)
	}
}

// sink moves a counter down that has one more denial.
func (c *counters) sink(k *counter) {
	for {
		below := 2*k.at + 1
		if below >= len(c.least) {
			return
		}
		if right := below + 1; right < len(c.least) && c.least[right].before(c.least[below]) {
			below = right
		}
		next := c.least[below]
		if !next.before(k) {
			return
		}
		c.swap(k, next)
	}
}

func (c *counters) swap(a, b *counter) {
	c.least[a.at], c.least[b.at] = b, a
	a.at, b.at = b.at, a.at
}
