package memory

import (
	"cmp"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// maxFastBatch is how many requests of a batch are decided with their entries locked alone.
const maxFastBatch = 8

// member is one request of such a batch.
type member struct {
	entry    *entry
	shard    *shard
	v        *version
	key, tag uint64
	next     algo.State
	request  int
}

// members are those of a batch, in the order in which entries are locked.
type members []member

// decideFastBatch is DecideAll for most batches: a few requests for some units and nothing else,
// about different keys that have entries, in the published tables, of the requests' versions,
// whose states are inline. It locks these entries alone, as decideFast does, in the order of
// their identity, so that no two batches wait for each other. It reports false if shards must
// be locked; nothing has changed then.
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
		// Of a batch that is denied, what was denied may be counted.
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
			sh.seeToUpkeep(now)
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

// lock locks the entries of all members, which are sorted, or none if one of them cannot be.
func (ms members) lock() bool {
	for i := range ms {
		m := &ms[i]
		// An entry that is asked for twice must not be waited for.
		if i > 0 && m.entry == ms[i-1].entry || !m.entry.lock(m.tag) {
			ms[:i].unlock()
			return false
		}
		if m.shard.frozen.Load() || m.entry.key.Load() != m.key || m.v.retired.Load() {
			// The entry may have been moved since: then it has another tag.
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

// decide answers all requests and finds the states that follow. It reports whether all
// are allowed. Otherwise, those that are say what could be taken now.
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
