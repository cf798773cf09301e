package memory

import (
	"context"
	"fmt"
	"math"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// batch is the working space of DecideAll.
type batch struct {
	items   []item
	stripes []*stripe // in order
	// marks has a bit for each stripe of the batch, and index finds items by their keys: see first.
	marks []uint64
	index []int32
}

// item is one request of a batch.
type item struct {
	location
	req  algo.Request
	ban  location // location of the ban of the request's own key
	full bool     // there was no room: location has the shared state
	// first is the index of the first item with the same location, which may be this one.
	first int
	// twice says that another item has the same location.
	twice bool
}

// DecideAll decides several requests as one. See sluice.Store.
// Errors are as in Decide.
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
	if s.decideFastBatch(rs, out) {
		return nil
	}
	return s.decideBatch(rs, out)
}

// decideBatch is DecideAll for any batch. It locks all stripes of the batch, in order. It charges the
// debits, finds out what each other decision would be, and then charges all others, or none.
func (s *Store) decideBatch(rs []sluice.Request, out []sluice.Decision) error {
	b := s.scratch.Get().(*batch)
	defer s.scratch.Put(b)
	defer b.reset()
	if err := s.lockAll(b, rs); err != nil {
		return err
	}
	defer b.unlock()
	for i := range rs {
		if rs[i].Hold > 0 {
			b.items[i].stripe.giveBackDue(b.items[i].req.Now, math.MaxInt)
		}
	}
	b.prepare(s, rs)
	allowed := true
	for i := range rs {
		if debits(&rs[i]) {
			out[i] = b.items[i].mark(b.items[i].decide(&rs[i]))
			allowed = allowed && out[i].Allowed
		}
	}
	for i := range rs {
		if rs[i].Shadow || debits(&rs[i]) {
			continue
		}
		out[i] = b.peek(i, rs)
		allowed = allowed && out[i].Allowed
	}
	allowed = allowed && b.convert(rs, out)
	if !allowed {
		b.uncharge(rs, out)
	}
	for i := range rs {
		if rs[i].Shadow || rs[i].Peek || debits(&rs[i]) {
			continue
		}
		switch {
		case !out[i].Allowed:
			b.denied(i, rs, &out[i])
		case allowed && rs[i].Cost > 0:
			out[i] = b.items[i].take(&rs[i])
		}
		if !allowed {
			out[i].Receipt = sluice.Receipt{} // nothing was charged
		}
	}
	for i := range rs {
		if rs[i].Shadow {
			out[i] = b.items[i].take(&rs[i])
		}
	}
	return nil
}

// prepare adds entries, with room, for all keys that may need one, so that charging them cannot
// fail. Unused entries are swept after the batch. prepare itself sweeps once for each new key,
// before it adds any entry, because a sweep would remove the new entries. Without these sweeps the
// far end of a table would fill up.
func (b *batch) prepare(s *Store, rs []sluice.Request) {
	for _, sp := range b.stripes {
		now := b.items[0].req.Now
		if now >= sp.nextUpkeep.Load() {
			sp.scheduleUpkeep(now)
		}
		sp.upkeep(now)
	}
	for i := range b.items {
		if it := &b.items[i]; !rs[i].Peek && rs[i].Cost > 0 && it.stripe.lookup(&it.location) == nil {
			it.stripe.relieve(it.key, it.req.Now)
		}
	}
	for _, sp := range b.stripes {
		sp.pinned = true
	}
	for i := range b.items {
		it := &b.items[i]
		if !b.charges(i, rs) && !debits(&rs[i]) || it.full {
			continue
		}
		if !it.stripe.prepare(&it.location, it.req.Now) && !s.denyWhenFull {
			o := s.overflow(&it.location)
			if it.stripe.sharedEntry(&o, it.req.Now) != nil {
				b.share(i, &o)
			}
		}
	}
}

// share makes an item use the shared state at o, together with all items of the same location.
// Items of other keys may already use that state.
func (b *batch) share(i int, o *location) {
	first := b.items[i].first
	for j := range b.items {
		if it := &b.items[j]; it.first == first {
			v := it.v
			it.location, it.full = *o, true
			it.v, it.tag = v, makeTag(o.tag, v.index)
		}
	}
	for j := range b.items {
		it := &b.items[j]
		if !it.full || it.key != o.key || !sameHash(it.tag, o.tag) || it.stripe != o.stripe {
			continue
		}
		if it.first != first {
			first = min(first, it.first)
			it.twice, b.items[i].twice = true, true
		}
	}
	for j := range b.items {
		if it := &b.items[j]; it.full && it.key == o.key && sameHash(it.tag, o.tag) && it.stripe == o.stripe {
			it.first = first
			it.twice = it.twice || j != i && b.items[i].twice
		}
	}
}

// prepare adds an entry for a location, with room for one more charge. A state under other
// numbers stays as it is: the batch may still be denied.
func (sp *stripe) prepare(p *location, now int64) bool {
	e := sp.lookup(p)
	if e == nil {
		if e = sp.add(p, now, false); e == nil {
			return false
		}
	}
	return p.v.params.Inline() || e.version() != p.v.index || sp.ensureBlock(p.v.params, e, now, false)
}

// charges reports whether an item is charged if the batch is allowed.
func (b *batch) charges(i int, rs []sluice.Request) bool {
	return !rs[i].Peek && !rs[i].Shadow && !rs[i].Debit && rs[i].Cost > 0
}

// debits reports whether a request is charged whether the batch is allowed or not.
func debits(r *sluice.Request) bool { return r.Debit && r.Cost > 0 && !r.Peek && !r.Shadow }

// convert converts each state that will be charged. The new version is the version of the first
// request that charges the state. It returns whether there was room.
func (b *batch) convert(rs []sluice.Request, out []sluice.Decision) bool {
	ok := true
	for i := range b.items {
		it := &b.items[i]
		if !b.charges(i, rs) {
			continue
		}
		e := it.stripe.lookup(&it.location)
		if e == nil || e.version() == it.v.index {
			continue
		}
		later := false
		for j := it.first; j < i && !later; j++ {
			later = b.items[j].first == it.first && b.charges(j, rs)
		}
		if later {
			continue // an earlier item converts it, to its own version
		}
		if !it.stripe.convert(it.v, e, it.req.Now) ||
			!it.v.params.Inline() && !it.stripe.ensureBlock(it.v.params, e, it.req.Now, false) {
			out[i], ok = noRoom(it.v), false
		}
	}
	return ok
}

// decide decides an item's request. It uses the ban of the item's own key, even if the state is
// shared.
func (it *item) decide(r *sluice.Request) sluice.Decision {
	if r.Ban != nil {
		return it.stripe.decideBan(&it.location, it.ban, r, &it.req)
	}
	return it.stripe.decideLimit(&it.location, r.Peek, &it.req)
}

// take decides an item's request for good, and holds what it was charged.
func (it *item) take(r *sluice.Request) sluice.Decision {
	d := it.mark(it.decide(r))
	it.stripe.hold(&it.location, r, &d, it.req.Now)
	return d
}

// peek returns the decision about one request as if the requests before it had been charged.
func (b *batch) peek(i int, rs []sluice.Request) sluice.Decision {
	it := &b.items[i]
	r := rs[i]
	r.Peek = true
	if !it.twice {
		return it.mark(it.decide(&r))
	}
	if r.Ban == nil {
		return it.mark(b.replay(i, rs))
	}
	terms := r.Ban.Terms()
	state, _ := it.stripe.banState(&it.ban, &terms, it.req.Now)
	d := b.replay(i, rs)
	if terms.Banned(state, it.req.Now) > 0 {
		return translate.Banned(terms.Attempted(state, it.req.Now).T-it.req.Now, &d)
	}
	translate.Denied(&terms, state, &d, it.req.Now)
	return it.mark(d)
}

// replay decides all requests to one location up to i on a copy of the state, each under its own
// version.
func (b *batch) replay(i int, rs []sluice.Request) sluice.Decision {
	it := &b.items[i]
	c := it.stripe.copyOf(&it.location, 4*len(rs))
	for j := it.first; j < i; j++ {
		o := &b.items[j]
		if o.first != it.first || !b.charges(j, rs) || c.Keeps(o.v.params, &o.req) {
			continue
		}
		c.Convert(o.v.params, o.req.Now)
		c.Charge(&o.req, new(algo.Result))
	}
	return peekReplica(&c, it.v, &it.req)
}

// uncharge decides the allowed requests of a denied batch again, as if no request before them had been charged.
func (b *batch) uncharge(rs []sluice.Request, out []sluice.Decision) {
	for i := range rs {
		it, alone := &b.items[i], rs[i]
		if alone.Peek = true; it.twice && !alone.Shadow && !debits(&rs[i]) && out[i].Allowed {
			out[i] = it.mark(it.decide(&alone))
		}
	}
}

// denied counts a denial in the ban, and in states that count denials. If the request is denied
// only because of requests before it, which are not charged, only the ban counts it.
func (b *batch) denied(i int, rs []sluice.Request, d *sluice.Decision) {
	it := &b.items[i]
	alone := rs[i]
	alone.Peek = true
	if !it.twice || !it.decide(&alone).Allowed {
		it.decide(&rs[i])
		return
	}
	if alone.Ban != nil {
		terms := alone.Ban.Terms()
		state, _ := it.stripe.banState(&it.ban, &terms, it.req.Now)
		counted := *d
		if state, counts := translate.Denied(&terms, state, &counted, it.req.Now); counts {
			it.stripe.putBan(&it.ban, alone.Limit, alone.Key, state, it.req.Now)
		}
	}
}

// mark sets Overflow in a decision that used a shared state.
func (it *item) mark(d sluice.Decision) sluice.Decision {
	if it.full {
		d.Overflow = true
		it.stripe.shared++
		if d.Allowed {
			d.Receipt.At = ^d.Receipt.At
		}
	}
	return d
}

func (b *batch) unlock() {
	for _, sp := range b.stripes {
		sp.pinned = false
		sp.unlock()
	}
}

// reset clears references that would keep limits and states in memory.
func (b *batch) reset() {
	clear(b.items)
	clear(b.stripes)
}
