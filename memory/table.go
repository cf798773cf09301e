package memory

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/sluicehq/sluice/algo"
)

// entry is the state of one key: 128 bits that identify the key and the version of its limit, and
// 16 bytes of state. Two entries fill a cache line.
type entry struct {
	// key is the first half of the identity; zero marks an empty entry.
	key atomic.Uint64
	// tag is the second half: 40 bits of hash, 23 of a version, and the lock bit.
	tag atomic.Uint64
	// Only the holder of the lock bit may use state, or the holder of the shard's mutex once it
	// has found the bit clear.
	state algo.State
}

const (
	entryBytes  = 32
	lockBit     = 1
	hashShift   = 24
	versionMask = 1<<23 - 1
)

// makeTag joins 40 bits of a hash with the index of a version.
func makeTag(hash, version uint64) uint64 {
	return hash>>hashShift<<hashShift | version<<1
}

// sameHash reports whether two tags differ only in version and lock.
func sameHash(a, b uint64) bool { return a>>hashShift == b>>hashShift }

// version returns the index of the version under which the state was written.
func (e *entry) version() uint64 { return e.tag.Load() >> 1 & versionMask }

// lock takes the lock bit of an entry with this tag, and waits for it if necessary. It returns
// false if the entry has another tag.
func (e *entry) lock(tag uint64) bool {
	return e.tag.CompareAndSwap(tag, tag|lockBit) || e.wait(tag)
}

// wait is lock for an entry that another goroutine holds. It reads the entry only now and then:
// each read takes the cache line away from the goroutine that will unlock the entry.
func (e *entry) wait(tag uint64) bool {
	for looks := 1; ; looks++ {
		switch e.tag.Load() {
		case tag:
			if e.tag.CompareAndSwap(tag, tag|lockBit) {
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
			// The compiler keeps an empty loop.
		}
	}
}

// betweenLooks is how many rounds of an empty loop pass between two reads: some ten nanoseconds.
const betweenLooks = 32

// unlock clears the lock bit.
func (e *entry) unlock(tag uint64) { e.tag.Store(tag) }

// hold waits until the lock bit is clear. In a frozen shard, a decision that takes the bit
// afterwards clears it at once.
func (e *entry) hold() {
	for spins := 1; e.tag.Load()&lockBit != 0; spins++ {
		if spins%64 == 0 {
			runtime.Gosched()
		}
	}
}

// retag changes the tag of an entry in a frozen shard. A goroutine may have just taken the lock
// bit, and not yet seen that the shard is frozen. It must find its bit again to clear it, so retag
// never overwrites a lock bit.
func (e *entry) retag(tag uint64) {
	for {
		e.hold()
		if old := e.tag.Load() &^ lockBit; e.tag.CompareAndSwap(old, tag&^lockBit) {
			return
		}
	}
}

// put fills an entry in a frozen shard.
func (e *entry) put(key, tag uint64, state algo.State) {
	e.retag(tag)
	e.key.Store(key)
	e.state = state
}

// table is an open-addressing table with linear probing, whose entries are in the order of their
// keys (Amble and Knuth, "Ordered hash tables", 1974). A key's home is proportional to the key, so
// homes have the same order. A search ends at the first larger key. Moving into a table of another
// size goes through both tables in one pass.
type table struct {
	entries []entry
	size    uint64 // homes are below it; the entries beyond hold displaced keys
	used    int
}

// slack is how many entries a table has beyond its homes. At the highest load the displacement of
// the last key exceeds it in about one of 10¹⁴ tables.
const slack = 96

func newTable(size uint64) *table {
	return &table{entries: make([]entry, size+min(size, slack)+1), size: size}
}

// tableBytes returns the memory of a table of a size, as the allocator rounds it up.
func tableBytes(size uint64) int64 {
	const page = 8192
	n := int64(size+min(size, slack)+1)*entryBytes + 64
	if n > page {
		return (n + page - 1) / page * page
	}
	return n + n/4 // the allocator's size classes are up to a quarter apart
}

func (t *table) bytes() int64 { return tableBytes(t.size) }

// home returns the position of a key that no other key displaces.
func (t *table) home(key uint64) int {
	hi, _ := bits.Mul64(key, t.size)
	return int(hi)
}

// first returns the position of the first key that is not less than key, from position i on. The
// last entry is always empty and ends every search.
func (t *table) first(i int, key uint64) int {
	// An empty entry has the key zero. Zero minus one is the largest number, so it ends the
	// search.
	for t.entries[i].key.Load()-1 < key-1 {
		i++
	}
	return i
}

// find returns the position of a key, or the position at which to insert it.
func (t *table) find(from int, key, tag uint64) (i int, ok bool) {
	entries := t.entries
	for i = from; entries[i].key.Load()-1 < key-1; i++ {
	}
	for ; entries[i].key.Load() == key; i++ {
		if sameHash(entries[i].tag.Load(), tag) {
			return i, true
		}
	}
	return i, false
}

// insert puts a key at a position that find returned, and moves the following keys. It returns
// whether the table had room. Like remove, it needs the shard frozen.
func (t *table) insert(i int, key, tag uint64, state algo.State) bool {
	end := i
	for t.entries[end].key.Load() != 0 {
		end++
	}
	if end == len(t.entries)-1 {
		return false
	}
	for ; end > i; end-- {
		t.shift(end, end-1)
	}
	t.entries[i].put(key, tag, state)
	t.used++
	return true
}

// remove empties an entry and closes the gap.
func (t *table) remove(i int) {
	t.entries[i].hold()
	for ; ; i++ {
		if next := t.entries[i+1].key.Load(); next == 0 || t.home(next) > i {
			break
		}
		t.shift(i, i+1)
	}
	t.entries[i].put(0, 0, algo.State{})
	t.used--
}

// shift copies the entry at from to its neighbour.
func (t *table) shift(to, from int) {
	e := &t.entries[from]
	e.hold()
	t.entries[to].put(e.key.Load(), e.tag.Load(), e.state)
}
