package memory

import (
	"github.com/sluicehq/sluice/internal/algo"
)

// A state that does not fit into its entry is in a block of the stripe's slab. T of the entry is a
// reference to the block, or zero if there is no block yet. V is the class of the block's size.

// words returns the block of an entry. The entry must have one.
func (sp *stripe) words(e *entry) []uint64 {
	return sp.slab.block(uint64(e.state.T), int(e.state.V))
}

// takeBlock returns a reference to a block of zeros, or 0 if the store has no room. If reserve is
// set, takeBlock may exceed the store's bound, and always returns a block.
func (sp *stripe) takeBlock(class int, reserve bool) uint64 {
	if n := sp.slab.need(class); n > 0 && !sp.store.grow(n) {
		if !reserve {
			return 0
		}
		sp.store.bytes.Add(n)
	}
	return sp.slab.take(class)
}

// freeBlock frees the block of an entry, if it has one.
func (sp *stripe) freeBlock(e *entry) {
	if e.state.T == 0 {
		return
	}
	sp.store.bytes.Add(-sp.slab.give(uint64(e.state.T), int(e.state.V)))
	e.state = algo.State{}
}

// ensureBlock gives an entry a block with room for one more charge. It returns whether there was
// room.
func (sp *stripe) ensureBlock(p *algo.Params, e *entry, now int64, reserve bool) bool {
	least, most := p.Words()
	if e.state.T == 0 {
		class := blockClass(least)
		ref := sp.takeBlock(class, reserve)
		if ref == 0 {
			return false
		}
		e.state = algo.State{T: int64(ref), V: uint64(class)}
		return true
	}
	w := sp.words(e)
	if len(w) >= most || !p.FullWords(w, now) {
		return true
	}
	class := int(e.state.V) + 1
	ref := sp.takeBlock(class, reserve)
	if ref == 0 {
		return false
	}
	p.MoveWords(sp.slab.block(ref, class), w)
	sp.freeBlock(e)
	e.state = algo.State{T: int64(ref), V: uint64(class)}
	return true
}

// moves reports whether a denial changes the state of an entry that was written under other
// numbers.
func (sp *stripe) moves(v *version, e *entry, now int64) bool {
	from := sp.store.versions.at(e.version()).params
	if v.params.Inline() {
		return v.params.MovesState(from, e.state, now)
	}
	return e.state.T != 0 && v.params.MovesWords(from, sp.words(e), now)
}

// convert converts the state of an entry, written under other numbers of the same limit, to the
// numbers of v. It returns whether there was room.
func (sp *stripe) convert(v *version, e *entry, now int64) bool {
	from := sp.store.versions.at(e.version())
	switch {
	case v.params.Equal(from.params):
		// The same numbers: settle nothing, so that a denial changes nothing.
	case v.params.Inline():
		e.state = v.params.ConvertState(from.params, e.state, now)
	case e.state.T != 0:
		old := sp.words(e)
		least, _ := v.params.Words()
		class := max(blockClass(least), int(e.state.V))
		ref := sp.takeBlock(class, false)
		if ref == 0 {
			return false
		}
		v.params.ConvertWords(from.params, sp.slab.block(ref, class), old, now)
		sp.freeBlock(e)
		e.state = algo.State{T: int64(ref), V: uint64(class)}
	}
	sp.adopt(v, from, e)
	return true
}

// adopt makes v the version of an entry, whose state is of the numbers of v.
func (sp *stripe) adopt(v, from *version, e *entry) {
	e.retag(makeTag(e.tag.Load(), v.index))
	sp.count(from, -1)
	sp.count(v, 1)
}
