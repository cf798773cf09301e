package memory

// The memory of a shard without its keys, and of what finds limits, rounded up.
const (
	shardBytes = 1 << 9
	cacheBytes = 1 << 14
)

// Stats are figures about a store.
type Stats struct {
	// Keys is the number of states that are held: one for each limit and key that
	// is not equal to a fresh one, and some that are but have not been swept yet.
	Keys int64
	// Bytes is the memory of the store: tables, slabs, and what they need.
	Bytes int64
	// EvictedLive counts states that were forgotten before they were equal to a
	// fresh one. It is always zero: the store has no code that does so.
	EvictedLive int64
	// Overflow counts decisions about new keys for which there was no room: they
	// shared a budget, or were denied.
	Overflow int64
	// Unlisted counts bans that hold and are not listed, for their keys' texts found no
	// room: these may take a sixteenth of the bytes.
	Unlisted int64
	// Limits is the number of versions of limits that states are kept for.
	Limits int64
}

// Stats returns the figures as of now. It locks one shard after the other.
func (s *Store) Stats() Stats {
	st := Stats{Bytes: s.bytes.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		st.Keys += int64(sh.keys())
		st.Overflow += int64(sh.shared)
		st.Unlisted += int64(sh.unlisted)
		sh.mu.Unlock()
	}
	s.versions.mu.Lock()
	st.Limits = int64(len(s.versions.byLimit))
	s.versions.mu.Unlock()
	return st
}
