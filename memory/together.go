package memory

import (
	"cmp"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// maxTogether is how many requests of a batch are decided with their slots locked alone.
const maxTogether = 8

// member is one request of such a batch.
type member struct {
	slot     *slot
	shard    *shard
	v        *version
	key, tag uint64
	next     algo.State
	request  int
}

// members are those of a batch, in the order in which slots are locked.
type members []member

// decideTogether is DecideAll for most batches: a few requests for some units and nothing else,
// about different keys that have slots, in the published tables, of the requests' versions,
// whose states are inline. It locks these slots alone, as decideFast does, in the order of
// their identity, so that no two batches wait for each other. It reports false if shards must
// be locked; nothing has changed then.
func (s *Store) decideTogether(rs []sluice.Request, out []sluice.Decision) bool {
	if len(rs) > maxTogether {
		return false
	}
	var room [maxTogether]member
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
		if m.slot = m.find(); m.slot == nil {
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
		if m := &ms[i]; (allowed || !out[m.request].Allowed) && m.next != m.slot.state {
			m.slot.state = m.next
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

// find returns the slot of the member's key in the published table, or nil.
func (m *member) find() *slot {
	t := m.shard.table.Load()
	i := t.first(t.home(m.key), m.key)
	for t.slots[i].key.Load() == m.key {
		if t.slots[i].tag.Load()&^lockBit == m.tag {
			return &t.slots[i]
		}
		i++
	}
	return nil
}

// lock locks the slots of all members, which are sorted, or none if one of them cannot be.
func (ms members) lock() bool {
	for i := range ms {
		m := &ms[i]
		// A slot that is asked for twice must not be waited for.
		if i > 0 && m.slot == ms[i-1].slot || !m.slot.lock(m.tag) {
			ms[:i].unlock()
			return false
		}
		if m.shard.frozen.Load() || m.slot.key.Load() != m.key || m.v.retired.Load() {
			// The slot may have been moved since: then it has another tag.
			m.slot.tag.CompareAndSwap(m.tag|lockBit, m.tag)
			ms[:i].unlock()
			return false
		}
	}
	return true
}

func (ms members) unlock() {
	for i := range ms {
		ms[i].slot.unlock(ms[i].tag)
	}
}

// decide answers all requests and finds the states that follow. It reports whether all
// are allowed. Otherwise, those that are say what could be taken now.
func (ms members) decide(now int64, rs []sluice.Request, out []sluice.Decision) bool {
	allowed := true
	for i := range ms {
		m := &ms[i]
		a := translate.Request(&rs[m.request])
		a.Now = now
		var ans algo.Result
		m.next = m.v.params.DecideState(m.slot.state, &a, &ans)
		out[m.request] = translate.Decision(m.v.params, &ans)
		allowed = allowed && ans.Allowed
	}
	if allowed {
		return true
	}
	for i := range ms {
		if d := &out[ms[i].request]; d.Allowed {
			a := translate.Request(&rs[ms[i].request])
			a.Now = now
			*d = peekState(ms[i].v, ms[i].slot.state, nil, &a)
		}
	}
	return false
}
