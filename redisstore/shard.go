package redisstore

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

var _ driver.Sharded = (*Store)(nil)

// Times of looking up which master of a cluster has which slots.
const (
	lookEach  = 5 * time.Second        // while calls succeed
	lookSoon  = time.Second            // after a call without a reply: a master may be gone
	lookTime  = 250 * time.Millisecond // for one attempt, which may go to a master that hangs
	lookTries = 4
)

// shardTable has the number of the shard of each slot.
type shardTable [slots]uint16

// shards numbers the masters of a cluster.
type shards struct {
	table   atomic.Pointer[shardTable] // nil until the first look
	due     atomic.Int64               // when to look, in nanoseconds since the Unix epoch
	last    atomic.Int64               // when the last look began
	looking atomic.Bool
}

// Shard returns the number of the cluster's master that decides about a key. See driver.Sharded.
//
// The number stays when another server takes over the master's slots. The store looks up the
// slots in the background. Until it has found them, and without a cluster, Shard returns 0.
func (s *Store) Shard(k sluice.Key) int {
	if !s.cluster {
		return 0
	}
	if now := time.Now().UnixNano(); now >= s.shards.due.Load() && !s.shards.looking.Swap(true) {
		s.shards.last.Store(now)
		go s.look()
	}
	table := s.shards.table.Load()
	if table == nil {
		return 0
	}
	return int(table[s.names.slot(k)])
}

// hurry lets the next request look up the masters soon.
func (x *shards) hurry() {
	if soon := x.last.Load() + int64(lookSoon); soon < x.due.Load() {
		x.due.Store(soon)
	}
}

// look looks up the masters of the cluster.
func (s *Store) look() {
	defer s.shards.looking.Store(false)
	next := lookSoon
	for range lookTries {
		if s.closed.Load() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		masters, err := s.client.Masters(ctx)
		cancel()
		if err == nil && len(masters) > 0 {
			s.shards.table.Store(numberShards(s.shards.table.Load(), masters))
			next = lookEach
			break
		}
	}
	s.shards.due.Store(time.Now().Add(next).UnixNano())
}

// numberShards numbers the masters. A master gets the number that most of its slots had, unless
// another master has more such slots; otherwise the lowest free one.
func numberShards(old *shardTable, masters []Master) *shardTable {
	table := new(shardTable)
	taken := make([]bool, len(masters))
	type claim struct{ master, shard, slots int }
	claims := make([]claim, len(masters))
	for i, m := range masters {
		claims[i] = claim{i, -1, 0}
		if old != nil {
			claims[i].shard, claims[i].slots = commonShard(old, m)
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(b.slots, a.slots) })
	var without []Master
	for _, c := range claims {
		if c.shard < 0 || c.shard >= len(taken) || taken[c.shard] {
			without = append(without, masters[c.master])
			continue
		}
		taken[c.shard] = true
		table.set(masters[c.master], c.shard)
	}
	n := 0
	for _, m := range without {
		for taken[n] {
			n++
		}
		taken[n] = true
		table.set(m, n)
	}
	return table
}

// commonShard returns the number that most slots of a master have, and how many have it.
func commonShard(old *shardTable, m Master) (best, most int) {
	count := map[uint16]int{}
	best = -1
	for _, r := range m.Ranges {
		for slot := max(r.First, 0); slot <= r.Last && slot < slots; slot++ {
			n := old[slot]
			if count[n]++; count[n] > most {
				best, most = int(n), count[n]
			}
		}
	}
	return best, most
}

// set gives the slots of a master a number.
func (t *shardTable) set(m Master, n int) {
	for _, r := range m.Ranges {
		for slot := max(r.First, 0); slot <= r.Last && slot < slots; slot++ {
			t[slot] = uint16(n)
		}
	}
}
