package memory

import (
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// Sizes of batches that are decided with only their entries locked: the largest, and the largest whose
// members are kept on the stack. Other decisions wait for all entries of a batch, so it is not unbounded.
const (
	maxFastBatch = 256
	fewRequests  = 8
)

// member is one request of a fast batch.
type member struct {
	entry    *entry
	stripe   *stripe
	v        *version
	key, tag uint64
	next     algo.State
}

// members are the requests of a fast batch.
type members []member

// order says in which order the entries of members are locked: by the identities of their keys, without the
// lowest bits. These have the index of the member.
type order []uint64

// decideFastBatch is DecideAll for most batches: requests with different keys, each for some
// units and nothing else. The published tables must have an entry for each request, with its
// version and an inline state; it adds entries for new keys. It locks only these entries, as
// decideFast does, in the order of their identities, so that no two batches wait for each other.
// If stripes must be locked, it returns false and has charged nothing.
func (s *Store) decideFastBatch(rs []sluice.Request, out []sluice.Decision) bool {
	n := len(rs)
	if n <= fewRequests {
		var ms [fewRequests]member
		var o [fewRequests]uint64
		return s.decideMembers(ms[:n], o[:n], rs, out)
	}
	if n > maxFastBatch {
		return false
	}
	room := s.rooms.Get().(*fastRoom)
	ok := s.decideMembers(room.members[:n], room.order[:n], rs, out)
	clear(room.members[:n]) // they would keep limits in memory
	s.rooms.Put(room)
	return ok
}

// fastRoom is memory for a fast batch of many requests.
type fastRoom struct {
	members [maxFastBatch]member
	order   [maxFastBatch]uint64
}

// decideMembers is decideFastBatch with memory for the members, and for their order.
func (s *Store) decideMembers(ms members, o order, rs []sluice.Request, out []sluice.Decision) bool {
	found := true
	for i := range rs {
		r := &rs[i]
		v := s.versions.cached(r.Limit)
		if v == nil || !v.inline || r.Cost <= 0 || r.Peek || r.Shadow || r.Ban != nil || r.Hold > 0 {
			return false
		}
		m := &ms[i]
		m.v = v
		m.key, m.tag = s.hashKey(v.id, r.Key), s.hashTag(v, r.Key)
		m.stripe = s.stripeOf(m.key)
		m.entry = m.find()
		found = found && m.entry != nil
		o[i] = m.key&^(maxFastBatch-1) | uint64(i)
	}
	slices.Sort(o)
	if !found && !ms.add() || !ms.lock(o) {
		return false
	}
	now := s.now()
	allowed := ms.decide(now, rs, out)
	for i := range ms {
		// In a denied batch, a state may still count the denied request, and debits are charged.
		if m := &ms[i]; (allowed || !out[i].Allowed || rs[i].Debit) && m.next != m.entry.state {
			m.entry.state = m.next
		}
	}
	ms.unlock(o)
	if !allowed {
		for i := range out {
			if !rs[i].Debit {
				out[i].Receipt = sluice.Receipt{} // nothing was charged
			}
		}
	}
	for i := range ms {
		if sp := ms[i].stripe; now >= sp.nextUpkeep.Load() {
			sp.tryUpkeep(now)
		}
	}
	return true
}

// add adds entries for the members without one, which equal fresh ones. It returns false if one has no entry then, such as
// in a stripe whose memory is short.
func (ms members) add() bool {
	for i := range ms {
		if m := &ms[i]; m.entry == nil && !m.add() {
			return false
		}
	}
	for i := range ms { // the entries behind a new one have moved
		m := &ms[i]
		if m.entry = m.find(); m.entry == nil {
			return false
		}
	}
	return true
}

// add adds an entry with the member's key, if its stripe has room and time for it.
func (m *member) add() bool {
	sp := m.stripe
	sp.lock()
	defer sp.unlock()
	if sp.closed || sp.old != nil || m.v.retired.Load() || sp.stay() == 0 {
		return false
	}
	p := location{m.key, m.tag, m.v, sp}
	return sp.lookup(&p) != nil || sp.add(&p, sp.store.now(), false) != nil
}

// find returns the entry of the member's key in the published table, or nil.
func (m *member) find() *entry {
	t := m.stripe.table.Load()
	i := t.first(t.home(m.key), m.key)
	for t.entries[i].key.Load() == m.key {
		if t.entries[i].tag.Load()&^lockBit == m.tag {
			return &t.entries[i]
		}
		i++
	}
	return nil
}

// lock locks the entries of all members in their order. If it cannot lock one of them, it locks none. That
// includes members of one key, because a batch must not wait for an entry that it has locked, and the
// rare keys that the order does not distinguish.
func (ms members) lock(o order) bool {
	for i := range o {
		m := ms.at(o[i])
		if i > 0 && o[i]^o[i-1] < maxFastBatch || !m.entry.lock(m.tag) {
			ms.unlock(o[:i])
			return false
		}
		if m.stripe.frozen.Load() || m.entry.key.Load() != m.key || m.v.retired.Load() {
			// The entry may have moved since then: it has another tag in that case.
			m.entry.tag.CompareAndSwap(m.tag|lockBit, m.tag)
			ms.unlock(o[:i])
			return false
		}
	}
	return true
}

func (ms members) at(word uint64) *member { return &ms[word%maxFastBatch] }

func (ms members) unlock(o order) {
	for _, word := range o {
		m := ms.at(word)
		m.entry.unlock(m.tag)
	}
}

// decide decides all requests and computes the next states. It reports whether all are allowed. If
// not, each allowed decision becomes a peek, except debits: Remaining and ResetAfter are of the state
// as it is.
func (ms members) decide(now int64, rs []sluice.Request, out []sluice.Decision) bool {
	allowed := true
	for i := range ms {
		m := &ms[i]
		req := translate.Request(&rs[i])
		req.Now = now
		var res algo.Result
		m.next = m.v.params.DecideState(m.entry.state, &req, &res)
		out[i] = translate.Decision(m.v.params, &res)
		allowed = allowed && res.Allowed
	}
	if allowed {
		return true
	}
	for i := range ms {
		if d := &out[i]; d.Allowed && !rs[i].Debit {
			req := translate.Request(&rs[i])
			req.Now = now
			*d = peekState(ms[i].v, ms[i].entry.state, nil, &req)
		}
	}
	return false
}
