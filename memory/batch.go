package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// batch is the working space of DecideAll.
type batch struct {
	items  []item
	shards []*shard
}

// item is one request of a batch.
type item struct {
	place
	ask  algo.Ask
	full bool // there was no room: place is that of the shared budget
	// first is the item with the same place that comes first, itself if none does.
	first int
	// twice says that another item has the same place.
	twice bool
}

// DecideAll answers several requests as one. See sluice.Store. All their shards are
// locked, in order; what each of them would be answered is found out first, and then
// all are charged, or none.
func (s *Store) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if len(out) != len(rs) {
		return fmt.Errorf("memory: DecideAll has %d requests and room for %d decisions; give as many", len(rs), len(out))
	}
	if len(rs) == 1 && !rs[0].Shadow {
		d, err := s.Decide(ctx, rs[0])
		if err == nil {
			out[0] = d
		}
		return err
	}
	for i := range rs {
		if err := rs[i].Check(); err != nil {
			return err
		}
	}
	b := s.scratch.Get().(*batch)
	defer s.scratch.Put(b)
	defer b.reset()
	if err := s.lockAll(b, rs); err != nil {
		return err
	}
	defer b.unlock()
	b.prepare(s, rs)
	allowed := true
	for i := range rs {
		if rs[i].Shadow {
			continue
		}
		out[i] = b.peek(i, rs)
		allowed = allowed && out[i].Allowed
	}
	for i := range rs {
		if rs[i].Shadow || rs[i].Peek {
			continue
		}
		switch {
		case !out[i].Allowed:
			b.denied(i, rs)
		case allowed && rs[i].Cost > 0:
			out[i] = b.decide(i, rs)
		}
	}
	for i := range rs {
		if rs[i].Shadow {
			out[i] = b.decide(i, rs)
		}
	}
	return nil
}

// lockAll finds the places of all requests and locks their shards.
func (s *Store) lockAll(b *batch, rs []sluice.Request) error {
	for {
		b.items, b.shards = b.items[:0], b.shards[:0]
		for i := range rs {
			v := s.version(rs[i].Limit)
			it := item{place: s.locate(v, rs[i].Key), ask: ask(&rs[i]), first: i}
			for j := range b.items {
				o := &b.items[j]
				if o.key == it.key && sameHash(o.tag, it.tag) {
					it.first, it.twice, o.twice = o.first, true, true
					break
				}
			}
			b.items = append(b.items, it)
			b.shards = append(b.shards, it.shard)
		}
		slices.SortFunc(b.shards, func(x, y *shard) int { return x.number - y.number })
		b.shards = slices.Compact(b.shards)
		retired := false
		for _, sh := range b.shards {
			sh.lock()
		}
		for i := range b.items {
			if v := b.items[i].v; v.retired.Load() {
				retired = true
				s.forget(v)
			}
		}
		switch {
		case len(b.shards) > 0 && b.shards[0].closed:
			b.unlock()
			return sluice.ErrClosed
		case retired:
			b.unlock()
			continue
		}
		now := s.now()
		for i := range b.items {
			b.items[i].ask.Now = now
		}
		return nil
	}
}

// prepare makes slots, with room, for all keys that may need one, so that
// charging them cannot fail. Slots that are not used are swept later.
func (b *batch) prepare(s *Store, rs []sluice.Request) {
	for _, sh := range b.shards {
		sh.upkeep(moveSlots, sweepSlots, b.items[0].ask.Now)
		sh.pinned = true
	}
	for i := range b.items {
		it := &b.items[i]
		if rs[i].Peek || rs[i].Shadow || it.ask.Cost == 0 || it.full {
			continue
		}
		if !it.shard.prepare(&it.place, it.ask.Now) && !s.denyWhenFull {
			o := s.overflow(&it.place)
			if it.shard.sharedSlot(&o, it.ask.Now) != nil {
				b.share(i, &o)
			}
		}
	}
}

// share lets an item, and all that have its place, be decided on the budget at o,
// which those of other keys may share.
func (b *batch) share(i int, o *place) {
	first := b.items[i].first
	for j := range b.items {
		if it := &b.items[j]; it.first == first {
			v := it.v
			it.place, it.full = *o, true
			it.v, it.tag = v, makeTag(o.tag, v.index)
		}
	}
	for j := range b.items {
		it := &b.items[j]
		if !it.full || it.key != o.key || !sameHash(it.tag, o.tag) || it.shard != o.shard {
			continue
		}
		if it.first != first {
			first = min(first, it.first)
			it.twice, b.items[i].twice = true, true
		}
	}
	for j := range b.items {
		if it := &b.items[j]; it.full && it.key == o.key && sameHash(it.tag, o.tag) && it.shard == o.shard {
			it.first = first
			it.twice = it.twice || j != i && b.items[i].twice
		}
	}
}

// prepare makes a slot for a place, with room for one more charge, in the terms of its version.
func (sh *shard) prepare(p *place, now int64) bool {
	sl := sh.lookup(p)
	if sl == nil {
		if sl = sh.add(p, now, false); sl == nil {
			return false
		}
	} else if sl.version() != p.v.index && !sh.convert(p.v, sl, now) {
		return false
	}
	return p.v.params.Inline() || sh.ensureBlock(p.v.params, sl, now, false)
}

// peek answers one request as it would be if those before it had been charged.
func (b *batch) peek(i int, rs []sluice.Request) sluice.Decision {
	it := &b.items[i]
	r := rs[i]
	r.Peek = true
	if !it.twice {
		return it.mark(it.shard.decide(&it.place, &r, &it.ask))
	}
	if r.Ban != nil {
		terms := banTerms(r.Ban)
		if state, _ := it.shard.banState(&it.place); terms.Banned(state, it.ask.Now) > 0 {
			return it.shard.decide(&it.place, &r, &it.ask)
		}
	}
	return it.mark(b.replay(i, rs))
}

// replay decides on a copy of the state all requests to one place, up to i, each
// in the terms of its own version.
func (b *batch) replay(i int, rs []sluice.Request) sluice.Decision {
	it := &b.items[i]
	c := it.shard.copyOf(&it.place, 4*len(rs))
	for j := it.first; j < i; j++ {
		o := &b.items[j]
		if o.first != it.first || rs[j].Shadow || rs[j].Peek {
			continue
		}
		c.convert(o.v.params, o.ask.Now)
		c.charge(&o.ask)
	}
	c.convert(it.v.params, it.ask.Now)
	return c.peek(it.v, &it.ask)
}

// denied lets bans, and logs that count them, know of a denial. One that comes
// only from what those before it would have taken, and have not, is told to the ban alone.
func (b *batch) denied(i int, rs []sluice.Request) {
	it := &b.items[i]
	if it.twice {
		alone := rs[i]
		alone.Peek = true
		if it.shard.decide(&it.place, &alone, &it.ask).Allowed {
			if alone.Ban != nil {
				it.shard.countDenial(&it.place, alone.Ban, it.ask.Now)
			}
			return
		}
	}
	it.shard.decide(&it.place, &rs[i], &it.ask)
}

// decide answers one request for good.
func (b *batch) decide(i int, rs []sluice.Request) sluice.Decision {
	it := &b.items[i]
	return it.mark(it.shard.decide(&it.place, &rs[i], &it.ask))
}

// mark says of a decision that it was made on a shared budget.
func (it *item) mark(d sluice.Decision) sluice.Decision {
	if it.full {
		d.Overflow = true
		it.shard.shared++
		if d.Allowed {
			d.Receipt.At = ^d.Receipt.At
		}
	}
	return d
}

func (b *batch) unlock() {
	for _, sh := range b.shards {
		sh.pinned = false
		sh.unlock()
	}
}

// reset forgets what would keep limits and states from being collected.
func (b *batch) reset() {
	clear(b.items)
	clear(b.shards)
}
