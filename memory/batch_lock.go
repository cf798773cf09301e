package memory

import (
	"math/bits"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/translate"
)

// lockAll finds the locations of all requests and locks their stripes.
func (s *Store) lockAll(b *batch, rs []sluice.Request) error {
	b.locate(s, rs, s.version)
	b.lock()
	if s.forgetRetired(b) {
		b.unlock()
		// Further limits, of this batch too, could be the end of the batch's limits again and again. So none is given
		// up until the stripes are locked.
		s.versions.mu.Lock()
		b.locate(s, rs, s.versions.keep)
		b.lock()
		s.versions.mu.Unlock()
	}
	if len(b.stripes) > 0 && b.stripes[0].closed {
		b.unlock()
		return sluice.ErrClosed
	}
	now := s.now()
	for i := range b.items {
		b.items[i].req.Now = now
	}
	return nil
}

// lock locks the stripes of a batch, in order.
func (b *batch) lock() {
	for _, sp := range b.stripes {
		sp.lock()
	}
}

// forgetRetired reports whether versions of a batch have been given up, and removes them from the cache.
func (s *Store) forgetRetired(b *batch) (found bool) {
	for i := range b.items {
		if v := b.items[i].v; v.retired.Load() {
			found = true
			s.forget(v)
		}
	}
	return found
}

// locate finds the locations of all requests, and their stripes. The function version returns the version of a limit.
func (b *batch) locate(s *Store, rs []sluice.Request, version func(*sluice.Limit) *version) {
	b.items, b.stripes = b.items[:0], b.stripes[:0]
	b.marks = slices.Grow(b.marks[:0], (len(s.stripes)+63)/64)[:(len(s.stripes)+63)/64]
	clear(b.marks)
	b.indexFor(len(rs))
	for i := range rs {
		v := version(rs[i].Limit)
		it := item{location: s.locate(v, rs[i].Key), req: translate.Request(&rs[i]), first: i}
		if rs[i].Ban != nil {
			it.ban = it.location.ban()
		}
		b.items = append(b.items, it)
		if o := b.first(i); o != i {
			b.items[i].first, b.items[i].twice, b.items[o].twice = o, true, true
		}
		b.marks[it.stripe.number/64] |= 1 << (it.stripe.number % 64)
	}
	for at, mark := range b.marks {
		for ; mark != 0; mark &= mark - 1 {
			b.stripes = append(b.stripes, &s.stripes[64*at+bits.TrailingZeros64(mark)])
		}
	}
}

// fewItems is the number of items up to which they are compared with each other.
const fewItems = 16

// indexFor makes an empty index for n items, with twice the room at least. Few items need none.
func (b *batch) indexFor(n int) {
	b.index = b.index[:0]
	if n > fewItems {
		size := 1 << bits.Len(uint(2*n-1))
		b.index = slices.Grow(b.index, size)[:size]
		clear(b.index)
	}
}

// first returns the index of the first item with the location of item i, and adds the item to the index if
// there is no other.
func (b *batch) first(i int) int {
	it := &b.items[i]
	if len(b.index) == 0 {
		for j := range i {
			if it.sameKey(&b.items[j]) {
				return j
			}
		}
		return i
	}
	mask := uint64(len(b.index) - 1)
	for at := it.key >> 32 & mask; ; at = (at + 1) & mask {
		switch j := int(b.index[at]) - 1; {
		case j < 0:
			b.index[at] = int32(i + 1)
			return i
		case it.sameKey(&b.items[j]):
			return j
		}
	}
}

// sameKey reports whether two items have the same location, maybe under different numbers of a limit.
func (it *item) sameKey(o *item) bool { return it.key == o.key && sameHash(it.tag, o.tag) }
