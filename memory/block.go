package memory

import (
	"github.com/sluicehq/sluice/algo"
)

// A slot whose state does not fit refers to a block of the shard's slab: T holds
// the reference, zero for none yet, and V the class of its size.

// words returns the block of a slot that has one.
func (sh *shard) words(sl *slot) []uint64 {
	return sh.slab.block(uint64(sl.state.T), int(sl.state.V))
}

// takeBlock returns a block of zeros, or no reference if there is no room.
func (sh *shard) takeBlock(class int, reserve bool) uint64 {
	if n := sh.slab.need(class); n > 0 && !sh.store.grow(n) {
		if !reserve {
			return 0
		}
		sh.store.bytes.Add(n)
	}
	return sh.slab.take(class)
}

// freeBlock gives the block of a slot back, if it has one.
func (sh *shard) freeBlock(sl *slot) {
	if sl.state.T == 0 {
		return
	}
	sh.store.bytes.Add(-sh.slab.give(uint64(sl.state.T), int(sl.state.V)))
	sl.state = algo.State{}
}

// ensureBlock gives a slot a block with room for one more charge. It reports
// whether there was room for it.
func (sh *shard) ensureBlock(p *algo.Params, sl *slot, now int64, reserve bool) bool {
	least, most := p.Words()
	if sl.state.T == 0 {
		class := blockClass(least)
		ref := sh.takeBlock(class, reserve)
		if ref == 0 {
			return false
		}
		sl.state = algo.State{T: int64(ref), V: uint64(class)}
		return true
	}
	w := sh.words(sl)
	if len(w) >= most || !p.FullWords(w, now) {
		return true
	}
	class := int(sl.state.V) + 1
	ref := sh.takeBlock(class, reserve)
	if ref == 0 {
		return false
	}
	p.MoveWords(sh.slab.block(ref, class), w)
	sh.freeBlock(sl)
	sl.state = algo.State{T: int64(ref), V: uint64(class)}
	return true
}

// restamps reports whether convert would lose the times of what is used.
func (sh *shard) restamps(v *version, sl *slot, now int64) bool {
	from := sh.store.versions.at(sl.version()).params
	if v.params.Inline() {
		return v.params.RestampsState(from, sl.state, now)
	}
	return sl.state.T != 0 && v.params.RestampsWords(from, sh.words(sl), now)
}

// convert puts the state of a slot, written under other numbers of the same
// limit, in those of v. It reports whether there was room for it.
func (sh *shard) convert(v *version, sl *slot, now int64) bool {
	from := sh.store.versions.at(sl.version())
	switch {
	case *from.params == *v.params:
		// A limit that was made again: nothing is settled, so that a denial moves nothing.
	case v.params.Inline():
		sl.state = v.params.ConvertState(from.params, sl.state, now)
	case sl.state.T != 0:
		old := sh.words(sl)
		least, _ := v.params.Words()
		class := max(blockClass(least), int(sl.state.V))
		ref := sh.takeBlock(class, false)
		if ref == 0 {
			return false
		}
		v.params.ConvertWords(from.params, sh.slab.block(ref, class), old, now)
		sh.freeBlock(sl)
		sl.state = algo.State{T: int64(ref), V: uint64(class)}
	}
	sl.retag(makeTag(sl.tag.Load(), v.index))
	from.slots.Add(-1)
	v.slots.Add(1)
	return true
}
