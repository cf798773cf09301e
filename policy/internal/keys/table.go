package keys

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/prefetch"
)

// ID identifies a key in a Table.
type ID struct {
	text  string
	parts int
}

// NewID returns the ID of a key.
func NewID(k sluice.Key) ID { return ID{k.Text(), k.Len()} }

// Key returns the key.
func (id ID) Key() sluice.Key { return sluice.EncodedKey(id.text, id.parts) }

// MaxKey bounds the bytes of a key in a Table.
const MaxKey = math.MaxUint16

// Table has a value for each of some keys. There may be millions of keys: the collector sees no pointer for any of
// them, and a change touches only the entry of its key. Many keys should share few values.
//
// Find takes no lock, and finds the value before or after a change, never a mix. The zero Table is empty. All methods
// are safe for concurrent use.
type Table[V comparable] struct {
	core atomic.Pointer[core[V]] // nil while there are no keys
	mu   sync.Mutex              // held by changes
	room int                     // for the first keys; guarded by mu
	// version is of the last change, and changing until it is complete. Changes of all tables have different ones.
	version atomic.Uint64
}

// changes counts the changes of all tables.
var changes atomic.Uint64

// change begins a change, and returns what ends it.
func (t *Table[V]) change() (end func()) {
	t.mu.Lock()
	t.version.Store(changing)
	return func() {
		t.version.Store(changes.Add(1))
		t.mu.Unlock()
	}
}

// core is the content of a table: groups of entries, and a word of marks for each group. A mark is a part of the hash
// of its entry's key. Marks are so few that they stay in a cache near the processor: a key that is not there takes one
// look at them, and a key that is there one more look at its entry, which is fetched meanwhile.
//
// An entry never changes once its mark is set, except for its state, which changes in one step.
type core[V comparable] struct {
	seed    maphash.Seed
	marks   []atomic.Uint64
	entries []entry
	long    atomic.Pointer[[][]byte] // texts that fit into no entry
	values  atomic.Pointer[[]V]

	// Only changes use these.
	numbers map[V]uint32 // the positions of values
	used    int          // entries with a mark
	live    int          // entries with a key
	fill    int          // of the last chunk of long texts
	garbage int          // bytes of long texts of removed keys
}

// entry is a key. A text that is longer than its room is among the long texts, and the entry has its position.
type entry struct {
	state         atomic.Uint64 // the position of the value, and the end in the upper half
	parts, length uint16
	text          [20]byte
}

// The marks of entries without a key: an entry that was never used, and an entry whose key was removed.
const (
	empty     = 0
	removed   = 1
	firstMark = 2
)

const (
	groupSize = 8                 // entries
	entrySize = 32                // bytes
	ones      = (1<<64 - 1) / 255 // a word with 1 in each byte
	chunkSize = MaxKey + 1
	large     = 1 << 10 // groups: their entries leave little room in a cache near the processor
)

// Len returns the number of keys.
func (t *Table[V]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.core.Load(); c != nil {
		return c.live
	}
	return 0
}

// IsEmpty reports whether there are no keys. It takes no lock.
func (t *Table[V]) IsEmpty() bool { return t.core.Load() == nil }

// Bytes returns how much memory the keys take, without their values.
func (t *Table[V]) Bytes() int64 {
	if c := t.core.Load(); c != nil {
		return int64(len(c.marks))*8 + int64(len(c.entries))*entrySize + int64(len(*c.long.Load()))*chunkSize
	}
	return 0
}

// Find returns the value for a key of a buffer, without making a string of the key.
func (t *Table[V]) Find(k Ref, b *Buffer) (v V, found bool) {
	c := t.core.Load()
	if c == nil {
		return v, false
	}
	text, parts := k.view(b), k.len()
	hash := c.hash(text, parts)
	c.fetch(hash)
	return c.value(c.find(text, parts, hash))
}

// value returns the value of the entry that find has returned.
func (c *core[V]) value(i int) (v V, found bool) {
	if i < 0 {
		return v, false
	}
	return c.valueOf(&c.entries[i]), true
}

// hash returns the hash of a key.
func (c *core[V]) hash(text string, parts int) uint64 {
	return maphash.String(c.seed, text) ^ uint64(parts)*0x9e3779b97f4a7c15
}

// markOf returns the mark of a hash.
func markOf(hash uint64) uint64 { return max(hash&0xff, firstMark) }

// halfOf returns the first of the four entries of a group where a key goes if one of them is free: a search fetches them.
func halfOf(hash uint64) int { return int(hash>>8) & 4 }

// home returns the first group for a hash, and next the group after another one.
func (c *core[V]) home(hash uint64) int { return int(hash >> 32 * uint64(len(c.marks)) >> 32) }

func (c *core[V]) next(group int) int {
	if group++; group < len(c.marks) {
		return group
	}
	return 0
}

// matches has the highest bit of each byte of a word that has a mark. Above such a byte, it may have the bit of a byte
// that differs from the mark in the lowest bit: such an entry has a key too.
func matches(word, mark uint64) uint64 {
	word ^= mark * ones
	return (word - ones) &^ word & (ones << 7)
}

// fetch begins to load what a search in a large table reads: it arrives at the same time.
func (c *core[V]) fetch(hash uint64) {
	if len(c.marks) >= large {
		g := c.home(hash)
		prefetch.Lines(&c.marks[g])
		prefetch.Lines(&c.entries[g*groupSize+halfOf(hash)])
	}
}

// find returns the index of the entry of a key with its hash; -1 for none.
func (c *core[V]) find(text string, parts int, hash uint64) int {
	mark := markOf(hash)
	g := c.home(hash)
	for ; ; g = c.next(g) {
		word := c.marks[g].Load()
		for m := matches(word, mark); m != 0; m &= m - 1 {
			i := g*groupSize + bits.TrailingZeros64(m)/8
			if s := &c.entries[i]; int(s.parts) == parts && int(s.length) == len(text) && string(c.textOf(s)) == text {
				return i
			}
		}
		if matches(word, empty) != 0 {
			return -1
		}
	}
}

// textOf returns the text of an entry's key.
func (c *core[V]) textOf(s *entry) []byte {
	if int(s.length) <= len(s.text) {
		return s.text[:s.length]
	}
	at := binary.LittleEndian.Uint32(s.text[:])
	return (*c.long.Load())[at/chunkSize][at%chunkSize:][:s.length]
}

// valueOf returns the value of an entry, and endOf its end.
func (c *core[V]) valueOf(s *entry) V {
	n := uint32(s.state.Load()) // before the values, which may grow meanwhile
	return (*c.values.Load())[n]
}

func endOf(s *entry) uint32 { return uint32(s.state.Load() >> 32) }

// Get returns the value of a key, and its end.
func (t *Table[V]) Get(id ID) (v V, end uint32, found bool) {
	c := t.core.Load()
	if c == nil {
		return v, 0, false
	}
	if i := c.find(id.text, id.parts, c.hash(id.text, id.parts)); i >= 0 {
		return c.valueOf(&c.entries[i]), endOf(&c.entries[i]), true
	}
	return v, 0, false
}

// Set gives a key a value, in place of the value that it has. The end is a time of the caller's, zero for none; see
// Ended. Set reports whether the key fits: it has at most MaxKey bytes.
func (t *Table[V]) Set(id ID, v V, end uint32) bool {
	if len(id.text) > MaxKey || id.parts > math.MaxUint16 {
		return false
	}
	defer t.change()()
	c := t.core.Load()
	if c == nil {
		c = newCore[V](t.room)
	} else if c.used >= len(c.entries)/8*7 || c.isWasteful() {
		c = c.rebuilt()
	}
	c.set(id, v, end)
	t.core.Store(c)
	return true
}

// Reserve makes the first key make room for so many keys. It saves the time and the garbage of growing.
func (t *Table[V]) Reserve(keys int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room = keys
}

// isWasteful reports whether most values, or most bytes of long texts, are earlier ones.
func (c *core[V]) isWasteful() bool {
	return len(c.numbers) > 64 && len(c.numbers) > 2*c.live || c.garbage > chunkSize && c.garbage > len(*c.long.Load())*chunkSize/2
}

func (c *core[V]) set(id ID, v V, end uint32) {
	state := uint64(end)<<32 | uint64(c.number(v))
	if i := c.find(id.text, id.parts, c.hash(id.text, id.parts)); i >= 0 {
		c.entries[i].state.Store(state)
		return
	}
	c.insert(id, state)
}

// insert adds a key that is not there.
func (c *core[V]) insert(id ID, state uint64) {
	text, hash := id.text, c.hash(id.text, id.parts)
	g := c.home(hash)
	for matches(c.marks[g].Load(), empty) == 0 {
		g = c.next(g)
	}
	word := c.marks[g].Load()
	half := halfOf(hash)
	i := (half + bits.TrailingZeros64(matches(bits.RotateLeft64(word, -8*half), empty))/8) % groupSize
	e := &c.entries[g*groupSize+i]
	e.parts, e.length = uint16(id.parts), uint16(len(text))
	if copy(e.text[:], text) < len(text) {
		binary.LittleEndian.PutUint32(e.text[:], c.keep(text))
	}
	e.state.Store(state)
	c.marks[g].Store(word | markOf(hash)<<(8*i)) // from now on, readers find the entry
	c.used++
	c.live++
}

// keep keeps a long text, and returns its position.
func (c *core[V]) keep(text string) uint32 {
	chunks := *c.long.Load()
	if len(chunks) == 0 || c.fill+len(text) > chunkSize {
		chunks = append(chunks, make([]byte, chunkSize)) // readers have positions in earlier chunks only
		c.long.Store(&chunks)
		c.fill = 0
	}
	at := (len(chunks)-1)*chunkSize + c.fill
	c.fill += copy(chunks[len(chunks)-1][c.fill:], text)
	return uint32(at)
}

// number returns the position of a value.
func (c *core[V]) number(v V) uint32 {
	n, known := c.numbers[v]
	if !known {
		n = uint32(len(c.numbers))
		c.numbers[v] = n
		values := append(*c.values.Load(), v) // readers have positions of earlier values only
		c.values.Store(&values)
	}
	return n
}

// newCore returns a core with room for some keys.
func newCore[V comparable](keys int) *core[V] {
	groups := keys/(groupSize-1) + 1
	c := &core[V]{seed: maphash.MakeSeed(), marks: make([]atomic.Uint64, groups), entries: make([]entry, groups*groupSize), numbers: map[V]uint32{}}
	c.long.Store(new([][]byte))
	c.values.Store(new([]V))
	return c
}

// rebuilt returns a core with the same keys and room for more, and without what is not used any more.
func (c *core[V]) rebuilt() *core[V] {
	n := newCore[V](c.live + c.live/2)
	c.each(func(e *entry) {
		n.insert(c.idOf(e), uint64(endOf(e))<<32|uint64(n.number(c.valueOf(e))))
	})
	return n
}

// idOf returns the key of an entry.
func (c *core[V]) idOf(s *entry) ID { return ID{string(c.textOf(s)), int(s.parts)} }

// each calls a function with the entry of each key.
func (c *core[V]) each(f func(s *entry)) {
	for g := range c.marks {
		word := c.marks[g].Load()
		for i := range groupSize {
			if word>>(8*i)&0xff >= firstMark {
				f(&c.entries[g*groupSize+i])
			}
		}
	}
}

// Remove removes a key, and reports whether it was there.
func (t *Table[V]) Remove(id ID) bool {
	defer t.change()()
	c := t.core.Load()
	if c == nil {
		return false
	}
	i := c.find(id.text, id.parts, c.hash(id.text, id.parts))
	if i < 0 {
		return false
	}
	if n := int(c.entries[i].length); n > len(c.entries[i].text) {
		c.garbage += n
	}
	c.live--
	word, shift := &c.marks[i/groupSize], i%groupSize*8
	if word.Store(word.Load()&^(0xff<<shift) | removed<<shift); c.live == 0 {
		t.core.Store(nil)
	}
	return true
}

// Take replaces all keys by the keys of another table, in one step. The other table is empty then.
func (t *Table[V]) Take(from *Table[V]) {
	defer t.change()()
	t.core.Store(from.core.Swap(nil))
}

// Ended returns the keys whose end is at or before a time, and the first end that comes later; zero for none.
func (t *Table[V]) Ended(now uint32) (ended []ID, next uint32) {
	if c := t.core.Load(); c != nil {
		c.each(func(s *entry) {
			switch end := endOf(s); {
			case end == 0:
			case end <= now:
				ended = append(ended, c.idOf(s))
			case next == 0 || end < next:
				next = end
			}
		})
	}
	return ended, next
}

// Each calls a function with each key and its value, in no order. Changes meanwhile may be missed.
func (t *Table[V]) Each(f func(id ID, v V)) {
	if c := t.core.Load(); c != nil {
		c.each(func(s *entry) { f(c.idOf(s), c.valueOf(s)) })
	}
}

// Values returns all values that some key has, each once, and perhaps values that keys had before.
func (t *Table[V]) Values() []V {
	if c := t.core.Load(); c != nil {
		return *c.values.Load()
	}
	return nil
}
