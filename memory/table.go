package memory

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/sluicehq/sluice/internal/algo"
)

// entry is the state of one key: 128 bits that identify the key and the version of its limit, and
// 16 bytes of state. Two entries fill a cache line.
type entry struct {
	// key is the first half of the identity; zero marks an empty entry.
	key half
	// tag is the second half: 40 bits of hash, 23 of a version, and the lock bit.
	tag half
	// Only the holder of the lock bit may use state, or the holder of the stripe's mutex once it
	// has found the bit clear.
	state algo.State
}

// half is one half of an identity. In a published table it is read and written with atomics.
type half uint64

func (h *half) Load() uint64   { return atomic.LoadUint64((*uint64)(h)) }
func (h *half) Store(x uint64) { atomic.StoreUint64((*uint64)(h), x) }

func (h *half) CompareAndSwap(old, x uint64) bool {
	return atomic.CompareAndSwapUint64((*uint64)(h), old, x)
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

// hold waits until the lock bit is clear. In a frozen stripe, a decision that takes the bit
// afterwards clears it at once.
func (e *entry) hold() {
	for spins := 1; e.tag.Load()&lockBit != 0; spins++ {
		if spins%64 == 0 {
			runtime.Gosched()
		}
	}
}

// retag changes the tag of an entry in a frozen stripe. A goroutine may have just taken the lock
// bit, and not yet seen that the stripe is frozen. It must find its bit again to clear it, so retag
// never overwrites a lock bit.
func (e *entry) retag(tag uint64) {
	for {
		if old := e.tag.Load(); old&lockBit == 0 && e.tag.CompareAndSwap(old, tag&^lockBit) {
			return
		}
		e.hold()
	}
}

// put fills an entry of a published table in a frozen stripe.
func (e *entry) put(key, tag uint64, state algo.State) {
	e.retag(tag)
	e.key.Store(key)
	e.state = state
}

// empty empties an entry of a published table in a frozen stripe.
func (e *entry) empty() { e.put(0, 0, algo.State{}) }

// table is an open-addressing table with linear probing, whose entries are in the order of their
// keys (Amble and Knuth, "Ordered hash tables", 1974). A key's home is proportional to the key, so
// homes have the same order. A search ends at the first larger key. Moving into a table of another
// size goes through both tables in one pass.
type table struct {
	entries []entry
	size    uint64   // homes are below it; the entries beyond hold displaced keys
	_       [64]byte // separates what all decisions read from what each new key writes
	used    int
	// published says that decisions may search the table with only an entry locked. Before, only
	// the holder of the stripe's mutex uses it, and writes without atomics.
	published bool
}

// slack is how many entries a table has beyond its homes. At the highest load the displacement of
// the last key exceeds it in about one of 10¹⁴ tables.
const slack = 96

// sentinels is how many entries at the end of a table are always empty. The first ends every search
// for a key. A decision that finds it reads one entry more.
const sentinels = 2

func newTable(size uint64) *table {
	return &table{entries: make([]entry, size+min(size, slack)+sentinels), size: size}
}

// tableBytes returns the memory of a table of a size, as the allocator rounds it up.
func tableBytes(size uint64) int64 {
	const page = 8192
	n := int64(size+min(size, slack)+sentinels)*entryBytes + 128
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

// first returns the position of the first key that is not less than key, from position i on.
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
// whether the table had room. Like remove, it needs the stripe frozen.
func (t *table) insert(i int, key, tag uint64, state algo.State) bool {
	end := i
	for t.entries[end].key.Load() != 0 {
		end++
	}
	if end == len(t.entries)-sentinels {
		return false
	}
	t.used++
	if !t.published {
		copy(t.entries[i+1:end+1], t.entries[i:end])
		// A decision that has not yet seen that the stripe is frozen may have locked the entry from which
		// the tag comes.
		t.entries[i] = entry{half(key), half(tag &^ lockBit), state}
		return true
	}
	for ; end > i; end-- {
		t.shift(end, end-1)
	}
	t.entries[i].put(key, tag, state)
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
	t.entries[i].empty()
	t.used--
}

// isRun reports whether none of the n entries at position i is empty.
func (t *table) isRun(i, n int) bool {
	for end := i + n; i < end; i++ {
		if t.entries[i].key.Load() == 0 {
			return false
		}
	}
	return true
}

// emptyTo empties the entries from a position to before another, unless there are none. It returns
// -1, the position for none.
func (t *table) emptyTo(from, to int) int {
	for ; 0 <= from && from < to; from++ {
		t.entries[from].empty()
	}
	return -1
}

// shift copies the entry at from to another position.
func (t *table) shift(to, from int) {
	e := &t.entries[from]
	e.hold()
	t.entries[to].put(e.key.Load(), e.tag.Load(), e.state)
}
