package floor

import (
	"hash/maphash"
	"sync/atomic"
)

// slotsPerLine is how many 16-byte slots a 64-byte cache line holds.
const slotsPerLine = 4

// Table is floor-table: a key may take burst units, ever. One decision is
// one 64-bit seeded hash, the search for that hash within a cache line, and
// one compare-and-swap of the 8-byte count beside it. It is safe for
// concurrent use. Two keys of one hash share a count: 64 bits are too few for
// an identity, which is one of the things a real store must pay for.
type Table struct {
	slots []slot
	mask  uint64 // over slots
	seed  maphash.Seed
	burst uint64
}

// slot is 16 bytes without pointers. A hash of 0 marks a free one.
type slot struct {
	hash  atomic.Uint64
	taken atomic.Uint64
}

// NewTable returns a table of at least the given number of slots, rounded up
// to a power of two. For one cache line per decision, fill at most half.
func NewTable(slots int, burst uint64) *Table {
	n := roundUp(slots, slotsPerLine)
	return &Table{
		slots: make([]slot, n),
		mask:  uint64(n - 1),
		seed:  maphash.MakeSeed(),
		burst: burst,
	}
}

// Take takes one unit for key and reports whether there was one.
func (t *Table) Take(key string) bool {
	s := t.find(maphash.String(t.seed, key))
	if s == nil {
		return false
	}
	for {
		taken := s.taken.Load()
		if taken >= t.burst {
			return false
		}
		if s.taken.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

// find returns the slot of hash, claiming a free one for a new hash, or nil
// if the table is full. It looks through a whole line before the next.
func (t *Table) find(hash uint64) *slot {
	hash = nonZero(hash)
	line := hash & t.mask &^ (slotsPerLine - 1)
	first := hash & (slotsPerLine - 1)
	for range len(t.slots) / slotsPerLine {
		for i := range uint64(slotsPerLine) {
			s := &t.slots[line|(first+i)&(slotsPerLine-1)]
			switch s.hash.Load() {
			case hash:
				return s
			case 0:
				if s.hash.CompareAndSwap(0, hash) || s.hash.Load() == hash {
					return s
				}
			}
		}
		line = (line + slotsPerLine) & t.mask
	}
	return nil
}

// Len is the number of slots.
func (t *Table) Len() int { return len(t.slots) }

// Bytes is what the slots occupy.
func (t *Table) Bytes() int { return len(t.slots) * 16 }

// Close does nothing; it makes a Table a subject like any other.
func (t *Table) Close() {}

// nonZero keeps 0 free for marking an empty slot.
func nonZero(hash uint64) uint64 {
	if hash == 0 {
		return 1
	}
	return hash
}

// roundUp returns the smallest power of two that is at least n and least.
func roundUp(n, least int) int {
	p := least
	for p < n {
		p *= 2
	}
	return p
}
