package keys

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
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

// Table has a value for each of some keys. There may be millions of keys: the collector sees no pointer for any of them, and a
// change touches only the entry of its key. Many keys should share few values.
//
// Find takes no lock, and finds the value before or after a change, never a mix. The zero Table is empty. All methods are safe
// for concurrent use.
type Table[V comparable] struct {
	core atomic.Pointer[core[V]] // nil while there are no keys
	mu   sync.Mutex              // held by changes
}

// core is the content of a table. A cell has the position of an entry in its low half, and a part of the key's hash in the
// other. Entries never change: a key with another value gets another entry, and its cell is replaced in one step.
type core[V comparable] struct {
	seed   maphash.Seed
	cells  []atomic.Uint64
	chunks atomic.Pointer[[][]byte]
	values atomic.Pointer[[]V]

	// Only changes use these.
	numbers  map[V]uint32 // the positions of values
	used     int          // cells that are not empty
	live     int          // entries that a cell leads to
	fill     int          // of the last chunk
	bytes    int64        // of entries
	liveSize int64        // of live entries
}

// The positions that lead to no entry: of a cell that was never used, and of one whose key was removed.
const (
	empty   = 0
	removed = math.MaxUint32
)

// An entry is a header, then the text of the key. Positions are multiples of its alignment.
const (
	header     = 12 // value, end, parts, length
	alignment  = 4
	chunkShift = 20
	chunkSize  = 1 << chunkShift
	firstChunk = 1 << 10
	leastCells = 16
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
func (t *Table[V]) Bytes() (n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.core.Load(); c != nil {
		n = int64(len(c.cells)) * 8
		for _, chunk := range *c.chunks.Load() {
			n += int64(len(chunk))
		}
	}
	return n
}

// Find returns the value for a key of a buffer, without making a string of the key.
func (t *Table[V]) Find(k Ref, b *Buffer) (v V, found bool) {
	c := t.core.Load()
	if c == nil {
		return v, false
	}
	var hash uint64
	made := b.bytes[k.start:k.end]
	if len(made) > 0 {
		hash = maphash.Bytes(c.seed, made)
	} else {
		hash = maphash.String(c.seed, k.text)
	}
	parts := k.len()
	hash = mix(hash, parts)
	for i := hash; ; i++ {
		s := c.cell(i).Load()
		at := uint32(s)
		if at == empty {
			return v, false
		}
		if at == removed || s>>32 != hash>>32 {
			continue
		}
		e := c.entry(at)
		if text := e.text(); e.parts() == parts && (len(made) > 0 && string(text) == string(made) || len(made) == 0 && string(text) == k.text) {
			return (*c.values.Load())[e.value()], true
		}
	}
}

// mix adds the number of parts to a hash.
func mix(hash uint64, parts int) uint64 { return hash ^ uint64(parts)*0x9e3779b97f4a7c15 }

// entry is a key, its value and its end.
type entry []byte

func (e entry) value() uint32 { return binary.LittleEndian.Uint32(e) }
func (e entry) end() uint32   { return binary.LittleEndian.Uint32(e[4:]) }
func (e entry) parts() int    { return int(binary.LittleEndian.Uint16(e[8:])) }
func (e entry) text() []byte  { return e[header : header+int(binary.LittleEndian.Uint16(e[10:]))] }
func (e entry) id() ID        { return ID{string(e.text()), e.parts()} }

// size returns how many bytes an entry takes.
func (e entry) size() int64 { return sizeOf(len(e.text())) }

func sizeOf(text int) int64 { return int64(header+text+alignment-1) / alignment * alignment }

// cell returns the cell of a hash.
func (c *core[V]) cell(hash uint64) *atomic.Uint64 { return &c.cells[hash&uint64(len(c.cells)-1)] }

// entry returns the entry at a position.
func (c *core[V]) entry(at uint32) entry {
	offset := int64(at-1) * alignment
	return (*c.chunks.Load())[offset>>chunkShift][offset&(chunkSize-1):]
}

// locate returns the cell of a key, and the entry that it leads to; nil if there is none, and then the cell is empty.
func (c *core[V]) locate(id ID) (cell *atomic.Uint64, hash uint64, e entry) {
	hash = mix(maphash.String(c.seed, id.text), id.parts)
	for i := hash; ; i++ {
		cell = c.cell(i)
		s := cell.Load()
		switch at := uint32(s); {
		case at == empty:
			return cell, hash, nil
		case at != removed && s>>32 == hash>>32:
			if e = c.entry(at); e.parts() == id.parts && string(e.text()) == id.text {
				return cell, hash, e
			}
		}
	}
}

// Get returns the value of a key, and its end.
func (t *Table[V]) Get(id ID) (v V, end uint32, found bool) {
	c := t.core.Load()
	if c == nil {
		return v, 0, false
	}
	if _, _, e := c.locate(id); e != nil {
		return (*c.values.Load())[e.value()], e.end(), true
	}
	return v, 0, false
}

// Set gives a key a value, in place of the value that it has. The end is a time of the caller's, zero for none; see Ended. Set
// reports whether the key fits: it has at most MaxKey bytes.
func (t *Table[V]) Set(id ID, v V, end uint32) bool {
	if len(id.text) > MaxKey || id.parts > math.MaxUint16 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.core.Load()
	if c == nil {
		c = newCore[V](0)
	}
	switch {
	case c.isWasteful():
		c = c.rebuilt()
	case c.used >= len(c.cells)/4*3:
		c = c.grown()
	}
	c.set(id, v, end)
	t.core.Store(c)
	return true
}

// isWasteful reports whether most entries, or most values, are earlier ones.
func (c *core[V]) isWasteful() bool {
	const least = 1 << 16
	return c.bytes > least && c.bytes > 2*c.liveSize || len(c.numbers) > 64 && len(c.numbers) > 2*c.live
}

func (c *core[V]) set(id ID, v V, end uint32) {
	cell, hash, before := c.locate(id)
	if before == nil {
		c.used++
		c.live++
	} else {
		c.liveSize -= before.size()
	}
	at, e := c.add(len(id.text))
	binary.LittleEndian.PutUint32(e, c.number(v))
	binary.LittleEndian.PutUint32(e[4:], end)
	binary.LittleEndian.PutUint16(e[8:], uint16(id.parts))
	binary.LittleEndian.PutUint16(e[10:], uint16(len(id.text)))
	copy(e[header:], id.text)
	cell.Store(hash>>32<<32 | uint64(at))
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

// add appends an entry for a key of some bytes, and returns its position. The entry is filled in before a cell leads to it.
func (c *core[V]) add(text int) (uint32, entry) {
	n := int(sizeOf(text))
	chunks := *c.chunks.Load()
	last := len(chunks) - 1
	if last < 0 || c.fill+n > chunkSize {
		last, c.fill = last+1, 0
		chunks = append(slices.Clone(chunks), nil)
	}
	if chunk := chunks[last]; c.fill+n > len(chunk) { // readers keep the shorter one
		size := chunkSize
		if last == 0 {
			size = min(chunkSize, 2*len(chunk)+max(firstChunk, n))
		}
		chunks = slices.Clone(chunks)
		chunks[last] = make([]byte, size)
		copy(chunks[last], chunk)
		c.chunks.Store(&chunks)
	}
	at := c.fill
	c.fill += n
	c.bytes += int64(n)
	c.liveSize += int64(n)
	return uint32((int64(last)<<chunkShift+int64(at))/alignment) + 1, chunks[last][at : at+n]
}

// newCore returns a core with room for some keys.
func newCore[V comparable](keys int) *core[V] {
	n := leastCells
	for n < 2*keys {
		n *= 2
	}
	c := &core[V]{seed: maphash.MakeSeed(), cells: make([]atomic.Uint64, n), numbers: map[V]uint32{}}
	c.chunks.Store(new([][]byte))
	c.values.Store(new([]V))
	return c
}

// grown returns a core with the same entries and more cells. Readers of c do not see what is added.
func (c *core[V]) grown() *core[V] {
	n := newCore[V](c.live + 1)
	n.seed, n.numbers, n.fill, n.bytes, n.liveSize = c.seed, c.numbers, c.fill, c.bytes, c.liveSize
	n.chunks.Store(c.chunks.Load())
	n.values.Store(c.values.Load())
	for i := range c.cells {
		if at := uint32(c.cells[i].Load()); at != empty && at != removed {
			n.insert(at, c.entry(at))
		}
	}
	return n
}

// insert leads a cell to an entry whose key has none.
func (c *core[V]) insert(at uint32, e entry) {
	hash := mix(maphash.Bytes(c.seed, e.text()), e.parts())
	i := hash
	for c.cell(i).Load() != empty {
		i++
	}
	c.cell(i).Store(hash>>32<<32 | uint64(at))
	c.used++
	c.live++
}

// rebuilt returns a core with the same keys, and without what is not used any more.
func (c *core[V]) rebuilt() *core[V] {
	n := newCore[V](c.live + 1)
	values := *c.values.Load()
	c.each(func(e entry) {
		text := e.text()
		at, to := n.add(len(text))
		copy(to, e)
		binary.LittleEndian.PutUint32(to, n.number(values[e.value()]))
		n.insert(at, to)
	})
	return n
}

// each calls a function with each live entry.
func (c *core[V]) each(f func(e entry)) {
	for i := range c.cells {
		if at := uint32(c.cells[i].Load()); at != empty && at != removed {
			f(c.entry(at))
		}
	}
}

// Remove removes a key, and reports whether it was there.
func (t *Table[V]) Remove(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.core.Load()
	if c == nil {
		return false
	}
	cell, _, e := c.locate(id)
	if e == nil {
		return false
	}
	c.live--
	c.liveSize -= e.size()
	if cell.Store(removed); c.live == 0 {
		t.core.Store(nil)
	}
	return true
}

// Take replaces all keys by the keys of another table, in one step. The other table is empty then.
func (t *Table[V]) Take(from *Table[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.core.Store(from.core.Swap(nil))
}

// Ended returns the keys whose end is at or before a time, and the first end that comes later; zero for none.
func (t *Table[V]) Ended(now uint32) (ended []ID, next uint32) {
	if c := t.core.Load(); c != nil {
		c.each(func(e entry) {
			switch end := e.end(); {
			case end == 0:
			case end <= now:
				ended = append(ended, e.id())
			case next == 0 || end < next:
				next = end
			}
		})
	}
	return ended, next
}

// Each calls a function with each key and its value, in no order. Changes meanwhile may be missed.
func (t *Table[V]) Each(f func(id ID, v V, end uint32)) {
	if c := t.core.Load(); c != nil {
		c.each(func(e entry) { f(e.id(), (*c.values.Load())[e.value()], e.end()) })
	}
}

// Values returns all values that some key has, each once, and perhaps values that keys had before.
func (t *Table[V]) Values() []V {
	if c := t.core.Load(); c != nil {
		return *c.values.Load()
	}
	return nil
}
