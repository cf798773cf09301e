package memory

import (
	"cmp"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// maxFastBatch is the largest batch that is decided with only its entries locked.
const maxFastBatch = 8

// member is one request of a fast batch.
type member struct {
	entry    *entry
	shard    *shard
	v        *version
	key, tag uint64
	next     algo.State
	request  int
}

// members are the requests of a fast batch, in the order in which their entries are locked.
type members []member

// decideFastBatch is DecideAll for most batches: few requests with different keys, each for some
// units and nothing else. The published tables must have an entry for each request, with its
// version and an inline state. It locks only these entries, as decideFast does, in the order of
// their identities, so that no two batches wait for each other. If shards must be locked, it
// returns false and has changed nothing.
func (s *Store) decideFastBatch(rs []sluice.Request, out []sluice.Decision) bool {
	if len(rs) > maxFastBatch {
		return false
	}
	var room [maxFastBatch]member
	ms := members(room[:len(rs)])
	for i := range rs {
		r := &rs[i]
		v := s.versions.cached(r.Limit)
		if v == nil || !v.inline || r.Cost <= 0 || r.Peek || r.Shadow || r.Ban != nil {
			return false
		}
		m := &ms[i]
		m.v, m.request = v, i
		m.key, m.tag = s.hashKey(v, r.Key), s.hashTag(v, r.Key)
		m.shard = s.shardOf(m.key)
		if m.entry = m.find(); m.entry == nil {
			return false
		}
	}
	slices.SortFunc(ms, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.tag, b.tag))
	})
	if !ms.lock() {
		return false
	}
	now := s.now()
	allowed := ms.decide(now, rs, out)
	for i := range ms {
		// In a denied batch, a state may still count the denied request.
		if m := &ms[i]; (allowed || !out[m.request].Allowed) && m.next != m.entry.state {
			m.entry.state = m.next
		}
	}
	ms.unlock()
	if !allowed {
		for i := range out {
			out[i].Receipt = sluice.Receipt{} // nothing was charged
		}
	}
	for i := range ms {
		if sh := ms[i].shard; now >= sh.nextUpkeep.Load() {
			sh.tryUpkeep(now)
		}
	}
	return true
}

// find returns the entry of the member's key in the published table, or nil.
func (m *member) find() *entry {
	t := m.shard.table.Load()
	i := t.first(t.home(m.key), m.key)
	for t.entries[i].key.Load() == m.key {
		if t.entries[i].tag.Load()&^lockBit == m.tag {
			return &t.entries[i]
		}
		i++
	}
	return nil
}

// lock locks the entries of all members, which are sorted. If it cannot lock one of them, it locks
// none.
func (ms members) lock() bool {
	for i := range ms {
		m := &ms[i]
		// Never wait for an entry that this batch has locked already.
		if i > 0 && m.entry == ms[i-1].entry || !m.entry.lock(m.tag) {
			ms[:i].unlock()
			return false
		}
		if m.shard.frozen.Load() || m.entry.key.Load() != m.key || m.v.retired.Load() {
			// The entry may have moved since then: it has another tag in that case.
			m.entry.tag.CompareAndSwap(m.tag|lockBit, m.tag)
			ms[:i].unlock()
			return false
		}
	}
	return true
}

func (ms members) unlock() {
	for i := range ms {
		ms[i].entry.unlock(ms[i].tag)
	}
}

// decide decides all requests and computes the next states. It reports whether all are allowed. If
// not, each allowed decision becomes a peek: its Remaining is what could be taken now.
func (ms members) decide(now int64, rs []sluice.Request, out []sluice.Decision) bool {
	allowed := true
	for i := range ms {
		m := &ms[i]
		req := translate.Request(&rs[m.request])
		req.Now = now
		var res algo.Result
		m.next = m.v.params.DecideState(m.entry.state, &req, &res)
		out[m.request] = translate.Decision(m.v.params, &res)
		allowed = allowed && res.Allowed
	}
	if allowed {
		return true
	}
	for i := range ms {
		if d := &out[ms[i].request]; d.Allowed {
			req := translate.Request(&rs[ms[i].request])
			req.Now = now
			*d = peekState(ms[i].v, ms[i].entry.state, nil, &req)
		}
	}
	return false
}
