package memory

import (
	"sync"

	"github.com/sluicehq/sluice/algo"
)

// shard is a part of the keys, under one lock.
type shard struct {
	mu sync.Mutex
	// latest is the latest time a decision was made at: goroutines take the lock
	// in another order than they read the clock in.
	latest int64

	now table // where keys are, or are being moved to
	ops uint32
	// pinned keeps fresh-equal states: a batch has prepared some.
	pinned bool
	closed bool

	// old is the table that keys are being moved from, if there is one: those
	// above moved are in it, at oldest or beyond.
	old    *table
	oldest int
	moved  uint64

	store   *Store
	number  int
	slab    slab
	sweepAt int
	shared  uint64 // decisions that shared a budget, or were denied, for lack of room
	worked  int    // slots moved or swept by the last operation that did
	_       [64]byte
}

func (sh *shard) init(s *Store, number int) {
	sh.store, sh.number = s, number
	sh.now = newTable(firstSize)
	sh.slab.last = -1
	s.bytes.Add(sh.now.bytes())
}

func (sh *shard) close() {
	if sh.closed {
		return
	}
	sh.closed = true
	n := sh.now.bytes() + sh.slab.bytes
	if sh.old != nil {
		n += sh.old.bytes()
	}
	sh.store.bytes.Add(-n)
	sh.now, sh.old, sh.slab = newTable(0), nil, slab{last: -1}
}

// tick makes the time of a question that of its turn: a clock given by Options is
// read now, the store's own never goes back.
func (sh *shard) tick(now *int64) {
	if sh.store.asked != nil {
		*now = sh.store.asked()
		return
	}
	if *now < sh.latest {
		*now = sh.latest
	}
	sh.latest = *now
}

// table returns the table that a key belongs to, and where to begin to look for it.
func (sh *shard) table(key uint64) (*table, int) {
	if sh.old != nil && key > sh.moved {
		return sh.old, max(sh.old.home(key), sh.oldest)
	}
	return &sh.now, sh.now.home(key)
}

// lookup returns the slot of a place, or nil.
func (sh *shard) lookup(p *place) *slot {
	t, from := sh.table(p.key)
	if i, ok := t.find(from, p.key, p.tag); ok {
		return &t.slots[i]
	}
	return nil
}

// keys returns the number of keys that have a slot.
func (sh *shard) keys() int {
	if sh.old != nil {
		return sh.now.used + sh.old.used
	}
	return sh.now.used
}

// fresh reports whether time has made a slot equal to one of a new key.
func (sh *shard) fresh(sl *slot, now int64) bool {
	index := sl.tag & versionMask
	if index == banVersion {
		return (&algo.Ban{}).Fresh(sl.state, now)
	}
	p := sh.store.versions.at(index).params
	if p.Inline() {
		return p.FreshState(sl.state, now)
	}
	return sl.state.T == 0 || p.FreshWords(sh.words(sl), now)
}

// drop forgets what a slot that is about to be removed refers to.
func (sh *shard) drop(sl *slot) {
	index := sl.tag & versionMask
	if index == banVersion {
		return
	}
	v := sh.store.versions.at(index)
	if !v.params.Inline() {
		sh.freeBlock(sl)
	}
	v.slots.Add(-1)
}

// remove forgets a place.
func (sh *shard) remove(p *place) {
	t, from := sh.table(p.key)
	if i, ok := t.find(from, p.key, p.tag); ok {
		sh.drop(&t.slots[i])
		t.remove(i)
	}
}

// add returns a new slot for a place, or nil if there is no room. A place in
// reserve may use the last of the table.
func (sh *shard) add(p *place, now int64, reserve bool) *slot {
	if !sh.makeRoom(now) && !reserve {
		return nil
	}
	t, from := sh.table(p.key)
	i, _ := t.find(from, p.key, p.tag)
	if !t.insert(i, p.key, p.tag) {
		if t != sh.old {
			return nil
		}
		// What is left of the old table has no place for it: the growth ends here.
		sh.move(len(t.slots), now)
		t = &sh.now
		if i, _ = t.find(t.home(p.key), p.key, p.tag); !t.insert(i, p.key, p.tag) {
			return nil
		}
	}
	if p.tag&versionMask != banVersion {
		p.v.slots.Add(1)
	}
	return &t.slots[i]
}
