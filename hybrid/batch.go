package hybrid

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
)

// mostLocal is the largest batch that is decided locally. The store of package redisstore decides no
// larger one either.
const mostLocal = 1000

// DecideAll decides several requests as one. See sluice.Store. A batch is decided locally if all
// its requests can be, and otherwise by the wrapped store. It does not allocate if it is decided
// locally.
// It returns the errors of the wrapped store.
func (s *Store) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if len(out) != len(rs) {
		return fmt.Errorf("hybrid: DecideAll has %d requests and room for %d decisions; give as many", len(rs), len(out))
	}
	if s.DecideAllLocally(rs, out) {
		return nil
	}
	for i := range rs {
		if err := rs[i].Check(); err != nil {
			return err
		}
	}
	if s.closed.Load() {
		return sluice.ErrClosed
	}
	if len(rs) == 1 && !rs[0].Shadow {
		d, err := s.decideSlow(ctx, &rs[0])
		if err == nil {
			out[0] = d
		}
		return err
	}
	return s.decideAllExactly(ctx, rs, out)
}

// DecideAllLocally decides a batch if that needs no call of the wrapped store. See
// driver.LocalDecider.
func (s *Store) DecideAllLocally(rs []sluice.Request, out []sluice.Decision) bool {
	n := len(rs)
	switch {
	case n != len(out) || n > mostLocal:
		return false
	case n == 0:
		return !s.closed.Load()
	case n > fewRequests:
		return s.decideManyLocally(rs, out)
	}
	var of, order [fewRequests]*entry
	each := 0
	for i := range rs {
		r := &rs[i]
		if !plain(r) {
			return false
		}
		e := s.table.lookup(r.Limit, r.Key)
		if e == nil {
			return false
		}
		of[i] = e
		at := each
		for at > 0 && order[at-1].serial > e.serial {
			at--
		}
		if at > 0 && order[at-1] == e {
			continue
		}
		copy(order[at+1:each+1], order[at:each])
		order[at] = e
		each++
	}
	return s.decideOnEntries(of[:n], order[:each], rs, out)
}

// fewRequests is the largest batch whose entries are kept on the stack, and sorted by insertion.
const fewRequests = 16

// decideManyLocally is DecideAllLocally for many requests.
func (s *Store) decideManyLocally(rs []sluice.Request, out []sluice.Decision) bool {
	room := s.rooms.Get().(*batchRoom)
	defer s.rooms.Put(room)
	defer room.clear()
	for i := range rs {
		r := &rs[i]
		if !plain(r) {
			return false
		}
		e := s.table.lookup(r.Limit, r.Key)
		if e == nil {
			return false
		}
		room.of = append(room.of, e)
	}
	room.order = append(room.order, room.of...)
	slices.SortFunc(room.order, func(x, y *entry) int { return cmp.Compare(x.serial, y.serial) })
	room.order = slices.Compact(room.order)
	return s.decideOnEntries(room.of, room.order, rs, out)
}

// batchRoom is memory for the entries of many requests.
type batchRoom struct{ of, order []*entry }

// clear drops the entries, which would stay in memory otherwise. Compact has cleared the end of order.
func (b *batchRoom) clear() {
	clear(b.of)
	clear(b.order)
	b.of, b.order = b.of[:0], b.order[:0]
}

// decideOnEntries decides a batch with its entries locked, or returns false and changes nothing. The entry of each
// request is in of. Each entry is in order once, by the serials: two batches never wait for each other.
func (s *Store) decideOnEntries(of, order []*entry, rs []sluice.Request, out []sluice.Decision) bool {
	now := s.clock.now()
	for _, e := range order {
		e.lock()
	}
	ok := decideTogether(of, rs, out, now)
	for _, e := range order {
		if ok && e.hand.left < e.low {
			s.runLow(e, now.mono)
		}
		e.unlock()
	}
	return ok
}

// charges reports whether a request is charged in any case.
func charges(r *sluice.Request) bool { return r.Debit && !r.Peek }

// decideTogether decides a batch on locked entries, or returns false and changes nothing. If a request is denied,
// only shadows and debits are charged. Debits are decided first, on the units in hand only.
func decideTogether(of []*entry, rs []sluice.Request, out []sluice.Decision, now instant) bool {
	of, out = of[:len(rs)], out[:len(rs)] // no checks of bounds below
	allowed, debits := true, false
	for i := range rs {
		r, e := &rs[i], of[i]
		if e.limit != r.Limit {
			return false
		}
		debits = debits || charges(r)
		if e.hand.has(r.Cost, r.Floor, now) {
			continue
		}
		if exact(r) || !e.denial.denies(r.Cost, r.Floor, now.mono) && !e.waits(now.mono) {
			return false
		}
		allowed = allowed && r.Shadow
	}
	for i := 0; debits && i < len(rs); i++ {
		r, e := &rs[i], of[i]
		if !charges(r) {
			continue
		}
		var d sluice.Decision
		if !e.hand.has(r.Cost, r.Floor, now) {
			undo(of[:i], rs, out, allowed, 0)
			return false
		}
		e.spend(r.Cost, now.mono, &d)
		out[i] = d
	}
	for i := range rs {
		r, e := &rs[i], of[i]
		if charges(r) {
			continue
		}
		var d sluice.Decision
		switch {
		case e.hand.has(r.Cost, r.Floor, now):
			if r.Peek || !allowed && !r.Shadow {
				e.show(now.mono, &d)
			} else {
				e.spend(r.Cost, now.mono, &d)
			}
		case allowed && !r.Shadow || exact(r) || !e.deny(r.Cost, r.Floor, now.mono, &d):
			// Earlier requests of the batch have taken the units.
			undo(of, rs, out, allowed, i)
			return false
		}
		out[i] = d
	}
	return true
}

// undo takes back the charges of the debits of a batch, and of its first n requests.
func undo(of []*entry, rs []sluice.Request, out []sluice.Decision, allowed bool, n int) {
	for i, e := range of {
		r := &rs[i]
		if i >= n && !charges(r) {
			continue
		}
		charged := out[i].Allowed && !r.Peek && (allowed || r.Shadow || r.Debit)
		if charged {
			e.hand.left += r.Cost
		}
		if charged || !out[i].Allowed {
			e.requests--
			e.units -= uint64(r.Cost)
		}
		if !out[i].Allowed {
			e.counts.cached--
		}
		out[i] = sluice.Decision{}
	}
}

// decideAllExactly lets the wrapped store decide a batch. It counts the demand, and calls for units
// of the keys that could use them.
func (s *Store) decideAllExactly(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	of := s.countAll(rs)
	if slices.ContainsFunc(of, func(m member) bool { return m.hot }) {
		rs = slices.Clone(rs)
		for i := range rs {
			if of[i].hot {
				rs[i].MaxWait = heldWait(true)
			}
		}
	}
	if err := s.backend.DecideAll(ctx, rs, out); err != nil {
		return err
	}
	for i := range of {
		e := of[i].entry
		if e == nil || !of[i].hot || out[i].Allowed || rs[i].Overdraw {
			continue
		}
		// Together with earlier requests for the key, it may have been too much.
		if !slices.ContainsFunc(of[:i], func(m member) bool { return m.entry == e }) {
			e.learnDenial(&out[i], &rs[i], of[i].resets, s.clock.now().mono, s.random())
		}
	}
	return nil
}

// member is the entry of a request of a batch, if grants can help it.
type member struct {
	entry  *entry
	hot    bool
	resets uint32
}

// countAll counts the requests of a batch. A grant helps a batch only if all its keys are hot.
func (s *Store) countAll(rs []sluice.Request) []member {
	of := make([]member, len(rs))
	useful := len(rs) <= mostLocal && !s.draining.Load()
	now := s.clock.now()
	for i := range rs {
		if !plain(&rs[i]) {
			useful = false
			continue
		}
		of[i].entry = s.entry(rs[i].Limit, rs[i].Key)
		useful = useful && of[i].entry != nil && of[i].entry.isBusy(now.mono)
	}
	for i := range of {
		e, r := of[i].entry, &rs[i]
		if e == nil {
			continue
		}
		e.lock()
		if e.dead {
			of[i].entry = nil
			e.unlock()
			continue
		}
		if e.limit != r.Limit {
			s.adopt(e, r.Limit)
		}
		e.used = true
		e.count(now.mono)
		e.counts.exact++
		if !useful {
			e.demand.useless++
		}
		e.request(r.Cost, now.mono)
		of[i].hot, of[i].resets = e.hot, e.resets
		if useful && e.hot && e.open == nil && now.mono >= e.exact && !e.waits(now.mono) &&
			!e.hand.has(r.Cost, r.Floor, now) {
			e.prefetch = true
			s.wake(e)
		}
		e.unlock()
	}
	return of
}

// isBusy reports whether a key is requested often, usefully or not.
func (e *entry) isBusy(now int64) bool {
	e.lock()
	defer e.unlock()
	e.count(now)
	return e.hot || e.requests-e.demand.from.requests >= e.terms.hotFrom || e.demand.busy*float64(e.terms.sync) >= hotFrom
}
