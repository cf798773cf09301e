package memory

import (
	"math/bits"

	"github.com/sluicehq/sluice/algo"
)

// slot is one key's place: 128 bits that identify the key and the version of its
// limit, and 16 bytes of state. Two slots fill a cache line.
type slot struct {
	// key is the first half of the identity; zero marks an empty slot.
	key uint64
	// tag is the second half: 40 bits of hash above the 24 bits of a version.
	tag   uint64
	state algo.State
}

const (
	slotBytes   = 32
	versionBits = 24
	versionMask = 1<<versionBits - 1
)

// table is an open-addressing table with linear probing whose slots are kept in
// the order of their keys (Amble and Knuth, "Ordered hash tables", 1974). A key's
// home is its share of the capacity, so that home positions have the same order:
// a search ends at the first larger key, and moving into a table of any other size goes
// through both in one pass.
type table struct {
	slots []slot
	size  uint64 // homes are below; the slots beyond take what is displaced
	used  int
}

// slack is how many slots a table has beyond its homes. At the highest load the
// displacement of the last key exceeds it about once in 10¹⁴ tables.
const slack = 96

func newTable(size uint64) table {
	return table{slots: make([]slot, size+min(size, slack)+1), size: size}
}

func tableBytes(size uint64) int64 { return int64(size+min(size, slack)+1) * slotBytes }

func (t *table) bytes() int64 { return int64(len(t.slots)) * slotBytes }

// home returns where a key would be if nothing displaced it.
func (t *table) home(key uint64) int {
	hi, _ := bits.Mul64(key, t.size)
	return int(hi)
}

// find returns the position of a key, or the one to insert it at. The last slot
// is always empty and ends every search.
func (t *table) find(from int, key, tag uint64) (i int, ok bool) {
	slots := t.slots
	// An empty slot's key, zero, less one is larger than any.
	for i = from; slots[i].key-1 < key-1; i++ {
	}
	for ; slots[i].key == key; i++ {
		if slots[i].tag>>versionBits == tag>>versionBits {
			return i, true
		}
	}
	return i, false
}

// insert makes room at a position that find returned. It reports whether the
// table had any left.
func (t *table) insert(i int, key, tag uint64) bool {
	end := i
	for t.slots[end].key != 0 {
		end++
	}
	if end == len(t.slots)-1 {
		return false
	}
	copy(t.slots[i+1:end+1], t.slots[i:end])
	t.slots[i] = slot{key: key, tag: tag}
	t.used++
	return true
}

// remove empties a slot and closes the gap.
func (t *table) remove(i int) {
	end := i + 1
	for t.slots[end].key != 0 && t.home(t.slots[end].key) < end {
		end++
	}
	copy(t.slots[i:end-1], t.slots[i+1:end])
	t.slots[end-1] = slot{}
	t.used--
}
