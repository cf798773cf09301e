package floor

import (
	"hash/maphash"
	"sync/atomic"
)

// entriesPerLine is how many 16-byte entries a 64-byte cache line holds.
const entriesPerLine = 4

// Table is floor-table: each key may take burst units, ever. One decision is one 64-bit seeded hash, the
// search for it within a cache line, and one compare-and-swap of the 8-byte count beside it. It is safe
// for concurrent use. Two keys with the same hash share a count: 64 bits are too few for an identity,
// which a real store must pay for.
type Table struct {
	entries []entry
	mask    uint64 // over entries
	seed    maphash.Seed
	burst   uint64
}

// An entry is 16 bytes without pointers. A free entry has a hash of 0.
type entry struct {
	hash  atomic.Uint64
	taken atomic.Uint64
}

// NewTable returns a table of at least the given number of entries, rounded up
// to a power of two. For one cache line per decision, fill at most half.
func NewTable(entries int, burst uint64) *Table {
	n := roundUp(entries, entriesPerLine)
	return &Table{
		entries: make([]entry, n),
		mask:    uint64(n - 1),
		seed:    maphash.MakeSeed(),
		burst:   burst,
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

// find returns the entry of a hash, or nil if the table is full. It claims a free entry for a new hash,
// and searches a whole line before the next.
func (t *Table) find(hash uint64) *entry {
	hash = nonZero(hash)
	line := hash & t.mask &^ (entriesPerLine - 1)
	first := hash & (entriesPerLine - 1)
	for range len(t.entries) / entriesPerLine {
		for i := range uint64(entriesPerLine) {
			s := &t.entries[line|(first+i)&(entriesPerLine-1)]
			switch s.hash.Load() {
			case hash:
				return s
			case 0:
				if s.hash.CompareAndSwap(0, hash) || s.hash.Load() == hash {
					return s
				}
			}
		}
		line = (line + entriesPerLine) & t.mask
	}
	return nil
}

// Len is the number of entries.
func (t *Table) Len() int { return len(t.entries) }

// Bytes is what the entries occupy.
func (t *Table) Bytes() int { return len(t.entries) * 16 }

// Close does nothing. The benchmark needs it.
func (t *Table) Close() {}

// nonZero keeps 0 for empty entries.
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
