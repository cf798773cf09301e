package hybrid

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/algo"
)

// tally adds up the figures of a limit, in all its versions.
type tally struct {
	limit atomic.Pointer[sluice.Limit] // the version that was used last

	granted, spent, returned, expired, lost atomic.Uint64
	credit, extra                           atomic.Uint64
	requests, exact, cached, calls, sizes   atomic.Uint64

	excess   atomic.Int64
	lastSync atomic.Int64 // nanoseconds since the Unix epoch
	syncTime atomic.Int64
	holders  atomic.Int64
}

// counts are the figures of one entry that are not in the tally yet.
type counts struct {
	granted, spent, returned, expired, lost uint64
	credit                                  uint64 // reported as spent on credit
	extra                                   uint64 // reported as spent, or to report, beyond what was granted
	exact, cached                           uint64
	folded                                  uint64 // the requests that are in the tally
}

// fold moves the counts of a locked entry into the tally of its limit.
func (e *entry) fold() {
	t, c := e.terms.tally, &e.counts
	t.granted.Add(c.granted)
	t.spent.Add(c.spent)
	t.returned.Add(c.returned)
	t.expired.Add(c.expired)
	t.lost.Add(c.lost)
	t.credit.Add(c.credit)
	t.extra.Add(c.extra)
	t.exact.Add(c.exact)
	t.cached.Add(c.cached)
	t.requests.Add(e.requests - c.folded)
	*c = counts{folded: e.requests}
}

// synced notes an answer of the store about a locked entry.
func (e *entry) synced(q *openClaim, g *driver.Grant, now instant) {
	t := e.terms.tally
	t.calls.Add(1)
	t.lastSync.Store(now.wall)
	t.syncTime.Store(now.mono - q.sent.mono)
	if g.Units > 0 {
		t.sizes.Add(1)
	}
	if excess := -(g.Free + g.Escrow); excess > t.excess.Load() {
		t.excess.Store(excess) // another entry of the limit may be faster, and the next answer corrects it
	}
	if n := int64(g.Holders); n > t.holders.Load() {
		t.holders.Store(n)
	}
}

// LimitStats are the figures of one limit. The figures named "so far" count since the store was
// made.
type LimitStats struct {
	// Limit is the name of the limit.
	Limit string
	// Keys is how many keys of the limit the store counts.
	Keys int
	// Over is the bound in force on how many units the limit may be exceeded by, per key: the
	// overdraft, and the credit of each process. Under is the bound on how many units per key may
	// stay unused although they are requested: what may be granted at once, and what the limit
	// gives during the longest time for which a denial is kept. For sliding windows, counters and
	// logs, it also has what the limit gives in a quarter more than Sync: spends count from their
	// report.
	Over, Under int64
	// Escrow is how many units all processes have in hand, as last answered, summed over the keys.
	Escrow int64
	// Unspent is how many units this process has in hand, and Unreported how many it has spent and
	// not reported.
	Unspent, Unreported int64
	// Overdraft is how many units of the overdraft are in use, of the key that uses most.
	Overdraft int64
	// Granted, Spent, Returned, Expired and Lost count units so far: granted, reported as spent,
	// returned, expired in hand, and forgotten by the store.
	Granted, Spent, Returned, Expired, Lost uint64
	// Local, Exact and Cached count decisions so far: on units in hand, by the wrapped store, and by
	// denials that were kept.
	Local, Exact, Cached uint64
	// Calls counts answered claims so far. Several claims may travel in one call.
	Calls uint64
	// LastSync is when the store last answered a claim.
	LastSync time.Time
	// SyncTime is how long that answer took.
	SyncTime time.Duration
	// GrantSize is the mean number of units of a grant.
	GrantSize float64
	// Excess is the largest number of units by which a key exceeded its capacity, as answered so
	// far: used and not covered by a grant.
	Excess int64
}

// Stats returns the figures of each limit, in the order of their names. It looks at all keys.
func (s *Store) Stats() []LimitStats {
	sums := map[*tally]*LimitStats{}
	for _, t := range s.registry.all() {
		sums[t] = new(LimitStats)
	}
	s.table.each(func(e *entry) {
		e.lock()
		defer e.unlock()
		if e.dead {
			return
		}
		sum := sums[e.terms.tally]
		if sum == nil {
			return // added since then
		}
		e.fold()
		sum.Keys++
		sum.Escrow += e.seen.escrow
		if e.hand.birth != 0 {
			sum.Unspent += e.hand.left
		}
		sum.Unreported += e.hand.unreported()
		if q := e.open; q != nil {
			sum.Unreported += q.claim.Spent
		}
		sum.Overdraft = max(sum.Overdraft, min(-e.seen.free, e.limit.Hybrid().Overdraft))
	})
	all := make([]LimitStats, 0, len(sums))
	for t, sum := range sums {
		all = append(all, t.complete(*sum))
	}
	slices.SortFunc(all, func(a, b LimitStats) int { return cmp.Compare(a.Limit, b.Limit) })
	return all
}

// complete fills in the figures that are not of single keys.
func (t *tally) complete(st LimitStats) LimitStats {
	l := t.limit.Load()
	h := l.Hybrid()
	st.Limit = l.Name()
	st.Over = h.Overdraft + h.Credit*max(1, t.holders.Load())
	late := longestDenial
	switch l.Params().Kind {
	case algo.KindSlidingWindow, algo.KindSlidingCounter, algo.KindSlidingLog:
		late += int64(h.Sync) * (ticks + 1) / ticks // a synchronisation is up to a tick late
	}
	held := float64(l.Rate().Count()) * float64(late) / float64(l.Rate().Period())
	st.Under = min(l.Capacity(), l.Escrow()+int64(held)+1)
	st.Granted, st.Spent, st.Returned = t.granted.Load(), t.spent.Load(), t.returned.Load()
	st.Expired, st.Lost = t.expired.Load(), t.lost.Load()
	st.Exact, st.Cached, st.Calls = t.exact.Load(), t.cached.Load(), t.calls.Load()
	if n := t.requests.Load(); n > st.Exact+st.Cached {
		st.Local = n - st.Exact - st.Cached
	}
	if at := t.lastSync.Load(); at != 0 {
		st.LastSync = time.Unix(0, at)
	}
	st.SyncTime = time.Duration(t.syncTime.Load())
	if n := t.sizes.Load(); n > 0 {
		st.GrantSize = float64(st.Granted) / float64(n)
	}
	st.Excess = max(0, t.excess.Load())
	return st
}

// KeyStats are the figures of one key. The key may be an address or a secret.
type KeyStats struct {
	// Limit is the name of the limit.
	Limit string
	// Key is the key.
	Key sluice.Key
	// Escrow is how many units of the key all processes have in hand, as last answered.
	Escrow int64
	// Holders is how many processes these are, as last answered.
	Holders int
	// Unspent is how many units this process has in hand, and Unreported how many it has spent and
	// not reported.
	Unspent, Unreported int64
	// Age is for how long this process has had units of the key without a break. Zero without units in hand.
	Age time.Duration
	// Till is when the units in hand expire, by the clock of this computer. Zero without units in hand.
	Till time.Time
}

// Keys returns the n keys with the most units in escrow, the largest first. It looks at all keys.
func (s *Store) Keys(n int) []KeyStats {
	var all []KeyStats
	now := s.clock.now()
	s.table.each(func(e *entry) {
		e.lock()
		defer e.unlock()
		h := &e.hand
		if e.dead || e.seen.holders == 0 {
			return
		}
		k := KeyStats{
			Limit: e.limit.Name(), Key: e.key, Escrow: e.seen.escrow, Holders: e.seen.holders,
			Unreported: h.unreported(),
		}
		if q := e.open; q != nil {
			k.Unreported += q.claim.Spent
		}
		if h.birth != 0 {
			k.Unspent = h.left
			k.Age = time.Duration(now.mono - e.seen.since)
			k.Till = time.Unix(0, h.deadline.wall)
		}
		all = append(all, k)
	})
	slices.SortFunc(all, func(a, b KeyStats) int {
		return cmp.Or(cmp.Compare(b.Escrow, a.Escrow), cmp.Compare(a.Key.Text(), b.Key.Text()))
	})
	return all[:min(max(n, 0), len(all))]
}
