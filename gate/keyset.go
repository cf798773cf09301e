package gate

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/sluicehq/sluice"
)

// keySet estimates how many keys were active in a window, by linear counting: each sets a bit, and how
// many bits are set tells how many keys there were.
type keySet struct {
	seed maphash.Seed
	// sets are those of windows with even and odd numbers.
	sets [2]bitSet
}

const bitWords = 256

type bitSet struct {
	window atomic.Int64
	set    atomic.Int64 // bits that are set
	words  [bitWords]atomic.Uint64
}

func newKeySet() *keySet {
	s := &keySet{seed: maphash.MakeSeed()}
	for i := range s.sets {
		s.sets[i].window.Store(math.MinInt64)
	}
	return s
}

func (s *keySet) add(window int64, k sluice.Key) {
	b := &s.sets[window&1]
	if old := b.window.Load(); old != window && b.window.CompareAndSwap(old, window) {
		b.set.Store(0)
		for i := range b.words {
			b.words[i].Store(0)
		}
	}
	h := maphash.String(s.seed, k.Text()) + uint64(k.Len())
	bit := uint64(1) << (h & 63)
	w := &b.words[h>>6%bitWords]
	if w.Load()&bit == 0 && bits.OnesCount64(w.Or(bit)&bit) == 0 {
		b.set.Add(1)
	}
}

// active returns how many keys were active in the window, or the one before if they were more.
func (s *keySet) active(window int64) float64 {
	most := 1.0
	for i := range s.sets {
		b := &s.sets[i]
		if w := b.window.Load(); w == window || w == window-1 {
			most = max(most, b.estimate())
		}
	}
	return most
}

func (b *bitSet) estimate() float64 {
	const all = 64 * bitWords
	free := max(1, all-float64(b.set.Load()))
	return math.Round(all * math.Log(all/free))
}
