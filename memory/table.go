package memory

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/sluicehq/sluice/algo"
)

// slot is one key's place: 128 bits that identify the key and the version of its
// limit, and 16 bytes of state. Two slots fill a cache line.
type slot struct {
	// key is the first half of the identity; zero marks an empty slot.
	key atomic.Uint64
	// tag is the second half: 40 bits of hash, 23 of a version, and the lock bit.
	tag atomic.Uint64
	// state belongs to who holds the lock bit, or the shard's mutex and has found
	// the bit clear.
	state algo.State
}

const (
	slotBytes   = 32
	lockBit     = 1
	hashShift   = 24
	versionMask = 1<<23 - 1
)

// makeTag joins 40 bits of a hash with the index of a version.
func makeTag(hash, version uint64) uint64 {
	return hash>>hashShift<<hashShift | version<<1
}

// sameHash reports whether two tags differ by no more than version and lock.
func sameHash(a, b uint64) bool { return a>>hashShift == b>>hashShift }

// version returns the index of the version that the state was written under.
func (sl *slot) version() uint64 { return sl.tag.Load() >> 1 & versionMask }

// lock takes the lock bit of a slot that has this tag, and waits for it if need
// be. It reports false if the slot has another one.
func (sl *slot) lock(tag uint64) bool {
	return sl.tag.CompareAndSwap(tag, tag|lockBit) || sl.wait(tag)
}

// wait is lock for a slot that somebody holds. It looks at the slot now and then
// only, for each look takes its cache line from the one who is about to give it back.
func (sl *slot) wait(tag uint64) bool {
	for looks := 1; ; looks++ {
		switch sl.tag.Load() {
		case tag:
			if sl.tag.CompareAndSwap(tag, tag|lockBit) {
				return true
			}
		case tag | lockBit:
		default:
			return false
		}
		if looks%64 == 0 {
			runtime.Gosched()
		}
		for range betweenLooks {
			// Nothing here is left out by the compiler: a loop is kept.
		}
	}
}

// betweenLooks is how many rounds of an empty loop pass between two looks, some
// ten nanoseconds.
const betweenLooks = 32

// unlock gives the lock bit back.
func (sl *slot) unlock(tag uint64) { sl.tag.Store(tag) }

// hold waits until nobody holds the lock bit. With the shard frozen, nobody who
// takes it then keeps it.
func (sl *slot) hold() {
	for spins := 1; sl.tag.Load()&lockBit != 0; spins++ {
		if spins%64 == 0 {
			runtime.Gosched()
		}
	}
}

// retag changes the tag of a slot in a frozen shard. Who has just taken the lock
// bit, and has yet to see that the shard is frozen, must find it again to give it
// back: it is never written over.
func (sl *slot) retag(tag uint64) {
	for {
		sl.hold()
		if old := sl.tag.Load() &^ lockBit; sl.tag.CompareAndSwap(old, tag&^lockBit) {
			return
		}
	}
}

// put fills a slot in a frozen shard.
func (sl *slot) put(key, tag uint64, state algo.State) {
	sl.retag(tag)
	sl.key.Store(key)
	sl.state = state
}

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

func newTable(size uint64) *table {
	return &table{slots: make([]slot, size+min(size, slack)+1), size: size}
}

// tableBytes returns the memory of a table of some size, as the allocator rounds it up.
func tableBytes(size uint64) int64 {
	const page = 8192
	n := int64(size+min(size, slack)+1)*slotBytes + 64
	if n > page {
		return (n + page - 1) / page * page
	}
	return n + n/4 // its size classes are up to a quarter apart
}

func (t *table) bytes() int64 { return tableBytes(t.size) }

// home returns where a key would be if nothing displaced it.
func (t *table) home(key uint64) int {
	hi, _ := bits.Mul64(key, t.size)
	return int(hi)
}

// first returns the position of the first key that is not less, from a position
// on. The last slot is always empty and ends every search.
func (t *table) first(i int, key uint64) int {
	// An empty slot's key, zero, less one is larger than any.
	for t.slots[i].key.Load()-1 < key-1 {
		i++
	}
	return i
}

// find returns the position of a key, or the one to insert it at.
func (t *table) find(from int, key, tag uint64) (i int, ok bool) {
	slots := t.slots
	for i = from; slots[i].key.Load()-1 < key-1; i++ {
	}
	for ; slots[i].key.Load() == key; i++ {
		if sameHash(slots[i].tag.Load(), tag) {
			return i, true
		}
	}
	return i, false
}

// insert puts a key at a position that find returned, and moves those from there
// on. It reports whether the table had any room left. Like remove it needs the shard
// frozen.
func (t *table) insert(i int, key, tag uint64, state algo.State) bool {
	end := i
	for t.slots[end].key.Load() != 0 {
		end++
	}
	if end == len(t.slots)-1 {
		return false
	}
	for ; end > i; end-- {
		t.shift(end, end-1)
	}
	t.slots[i].put(key, tag, state)
	t.used++
	return true
}

// remove empties a slot and closes the gap.
func (t *table) remove(i int) {
	t.slots[i].hold()
	for ; ; i++ {
		if next := t.slots[i+1].key.Load(); next == 0 || t.home(next) > i {
			break
		}
		t.shift(i, i+1)
	}
	t.slots[i].put(0, 0, algo.State{})
	t.used--
}

// shift copies the slot at from to its neighbour.
func (t *table) shift(to, from int) {
	sl := &t.slots[from]
	sl.hold()
	t.slots[to].put(sl.key.Load(), sl.tag.Load(), sl.state)
}
