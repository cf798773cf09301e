package memory

import (
	"fmt"
	"testing"
)

// checkInvariants fails the test unless all invariants of the store hold. No other goroutine may
// use the store meanwhile.
func checkInvariants(tb testing.TB, s *Store) {
	tb.Helper()
	if err := invariants(s); err != nil {
		tb.Fatalf("invariants: %v", err)
	}
}

func invariants(s *Store) error {
	bytes := int64(len(s.stripes))*stripeBytes + cacheBytes
	counts := make(map[uint64]int64)
	banned := int64(0)
	for i := range s.stripes {
		sp := &s.stripes[i]
		if sp.frozen.Load() != sp.closed || sp.pinned {
			return fmt.Errorf("stripe %d: frozen or pinned with nobody in it", i)
		}
		sp.settleCount()
		if err := sp.invariants(counts); err != nil {
			return fmt.Errorf("stripe %d: %w", i, err)
		}
		if sp.closed {
			continue
		}
		bytes += sp.now.bytes() + sp.slab.bytes + heldBytes*int64(len(sp.holds.queue))
		if len(sp.holds.byID) != len(sp.holds.queue) {
			return fmt.Errorf("stripe %d: %d holds, and %d by their ends", i, len(sp.holds.byID), len(sp.holds.queue))
		}
		for id, b := range sp.banned {
			bytes += b.bytes()
			banned += b.bytes()
			if e := sp.lookup(&location{key: id.key, tag: id.tag}); e == nil || e.version() != banVersion {
				return fmt.Errorf("stripe %d: a ban of %q is listed that is not there", i, b.limit)
			}
		}
		if sp.old != nil {
			bytes += sp.old.bytes()
		}
	}
	if got := s.bytes.Load(); got != bytes {
		return fmt.Errorf("%d bytes are counted, and %d are there", got, bytes)
	}
	if got := s.banned.Load(); got != banned {
		return fmt.Errorf("%d bytes of listed bans are counted, and %d are there", got, banned)
	}
	if s.stripes[0].closed {
		return nil // nothing refers to a version any more
	}
	for i, v := range *s.versions.byID.Load() {
		switch {
		case v == nil && counts[uint64(i)] > 0 && i != banVersion:
			return fmt.Errorf("%d entries refer to the version %d, which was given up", counts[uint64(i)], i)
		case v == nil:
		case v.index != uint64(i) || v.retired.Load() || s.versions.byLimit[v.limit] != v:
			return fmt.Errorf("version %d is not itself", i)
		case v.entries.Load() != counts[uint64(i)]:
			return fmt.Errorf("version %d counts %d entries; there are %d", i, v.entries.Load(), counts[uint64(i)])
		}
	}
	return nil
}

// invariants adds to counts how many entries refer to each version.
func (sp *stripe) invariants(counts map[uint64]int64) error {
	published := sp.now
	if sp.old != nil {
		published = sp.old
	}
	if sp.table.Load() != published || !published.published || sp.old != nil && sp.now.published {
		return fmt.Errorf("another table is published")
	}
	blocks := make(map[uint64]int)
	var last uint64
	if err := sp.checkTable(sp.now, 0, &last, counts, blocks); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	if sp.old != nil {
		if last > sp.moved {
			return fmt.Errorf("key %x is in the new table, beyond what has been moved, %x", last, sp.moved)
		}
		last = sp.moved
		if err := sp.checkTable(sp.old, sp.oldest, &last, counts, blocks); err != nil {
			return fmt.Errorf("old table: %w", err)
		}
	}
	return sp.slab.check(blocks)
}

// checkTable checks one table. The entries before from have been moved.
func (sp *stripe) checkTable(t *table, from int, last *uint64, counts map[uint64]int64, blocks map[uint64]int) error {
	used, run := 0, from // run is where the occupied entries before this one begin
	for i := range t.entries {
		e := &t.entries[i]
		key, tag := e.key.Load(), e.tag.Load()
		if i < from { // it was moved: no decision can lock it
			if tag != 0 {
				return fmt.Errorf("entry %d was moved and has the tag %x", i, tag)
			}
			continue
		}
		if key == 0 {
			if tag != 0 || e.state.T != 0 || e.state.V != 0 {
				return fmt.Errorf("entry %d is empty and has a state", i)
			}
			run = i + 1
			continue
		}
		used++
		switch home := t.home(key); {
		case i >= len(t.entries)-sentinels:
			return fmt.Errorf("entry %d at the end is not empty", i)
		case tag&lockBit != 0:
			return fmt.Errorf("entry %d is locked", i)
		case key < *last:
			return fmt.Errorf("entry %d has key %x, after %x", i, key, *last)
		case home > i || home < run && from < run:
			return fmt.Errorf("entry %d has a key whose home is %d, with a gap before %d", i, home, run)
		case sp.store.stripeOf(key) != sp:
			return fmt.Errorf("entry %d has a key of another stripe", i)
		}
		for j := i - 1; j >= 0 && t.entries[j].key.Load() == key; j-- {
			if sameHash(t.entries[j].tag.Load(), tag) {
				return fmt.Errorf("entries %d and %d have the same key", j, i)
			}
		}
		*last = key
		version := e.version()
		counts[version]++
		if version == banVersion {
			continue
		}
		v := sp.store.versions.at(version)
		if v == nil {
			return fmt.Errorf("entry %d refers to version %d, which was given up", i, version)
		}
		if !v.params.Inline() && e.state.T != 0 {
			ref := uint64(e.state.T)
			if _, ok := blocks[ref]; ok {
				return fmt.Errorf("entry %d has the block %x of another", i, ref)
			}
			blocks[ref] = int(e.state.V)
		}
	}
	if used != t.used {
		return fmt.Errorf("%d entries are counted as used, and %d are", t.used, used)
	}
	return nil
}

// check checks that used and free blocks are disjoint and inside the chunks, and that the chunks
// match the counts.
func (s *slab) check(blocks map[uint64]int) error {
	taken := make([][]bool, len(s.chunks))
	bytes := int64(0)
	for i, c := range s.chunks {
		taken[i] = make([]bool, len(c))
		bytes += int64(len(c)) * 8
	}
	if bytes != s.bytes {
		return fmt.Errorf("%d bytes of blocks are counted, and %d are there", s.bytes, bytes)
	}
	claim := func(ref uint64, class int) error {
		chunk, offset := splitRef(ref)
		if chunk >= len(taken) || offset < 0 || offset+1<<class > len(taken[chunk]) || chunk == s.last && offset+1<<class > s.tail {
			return fmt.Errorf("block %x of class %d lies outside of its chunk", ref, class)
		}
		for i := offset; i < offset+1<<class; i++ {
			if taken[chunk][i] {
				return fmt.Errorf("block %x of class %d lies in another", ref, class)
			}
			taken[chunk][i] = true
		}
		return nil
	}
	for ref, class := range blocks {
		if err := claim(ref, class); err != nil {
			return err
		}
	}
	for class, ref := range s.free {
		for ; ref != 0; ref = s.block(ref, class)[0] {
			if err := claim(ref, class); err != nil {
				return fmt.Errorf("free: %w", err)
			}
		}
	}
	return nil
}
