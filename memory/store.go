package memory

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// Store keeps the state of limits in this process. It is safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	second folded
	shards []shard
	clock  clock
	asked  func() int64 // Options.Clock

	bytes        atomic.Int64
	banned       atomic.Int64 // those of them that texts of banned keys take
	maxBytes     int64
	denyWhenFull bool
	versions     versions
	scratch      sync.Pool // *batch
}

var (
	_ sluice.Store = (*Store)(nil)
	_ sluice.Taker = (*Store)(nil)
)

// New returns an empty store.
func New(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{
		seed:         maphash.MakeSeed(),
		second:       newFolded(),
		shards:       make([]shard, o.Shards),
		asked:        o.Clock,
		maxBytes:     o.MaxBytes,
		denyWhenFull: o.DenyWhenFull,
	}
	s.bytes.Store(int64(o.Shards)*shardBytes + cacheBytes)
	s.clock.init()
	s.versions.init()
	for i := range s.shards {
		s.shards[i].init(s, i)
	}
	s.scratch.New = func() any { return new(batch) }
	return s, nil
}

// NewLimiter returns a limiter for a rate such as "100/m", over a store of its own in this
// process. Each key gets a token bucket of that rate, which starts full and holds the rate's
// count: here bursts of up to 100 units, and 100 more per minute.
//
// It is the short form for programs that need one limit. For another algorithm, or for limits
// that share a store, use New and sluice.NewLimiter. The error is a *sluice.RateError or a
// *sluice.LimitError.
func NewLimiter(rate string) (*sluice.Limiter, error) {
	r, err := sluice.ParseRate(rate)
	if err != nil {
		return nil, err
	}
	limit, err := sluice.NewLimit("", sluice.TokenBucket{Rate: r})
	if err != nil {
		return nil, err
	}
	store, err := New(Options{})
	if err != nil {
		return nil, err
	}
	return sluice.NewLimiter(store, limit), nil
}

// Close frees the states. The store runs nothing in the background: a store that
// is not closed leaks nothing. All methods return sluice.ErrClosed afterwards.
func (s *Store) Close() error {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.lock()
		sh.close()
		sh.unlock()
	}
	return nil
}

// place is where the state of a limit's key belongs.
type place struct {
	key, tag uint64
	v        *version
	shard    *shard
}

// locate hashes a key, together with the identity of its limit.
func (s *Store) locate(v *version, k sluice.Key) place {
	key := s.hashKey(v, k)
	return place{key, s.hashTag(v, k), v, s.shardOf(key)}
}

// hashKey returns the first half of the identity, which tells shard and position: that
// of the name, under all algorithms.
func (s *Store) hashKey(v *version, k sluice.Key) uint64 {
	// The number of parts is a part of the identity.
	h := maphash.String(s.seed, k.Text()) ^ (v.id[0] + uint64(k.Len())*0x9e3779b97f4a7c15)
	if h == 0 {
		return 1 // zero marks an empty slot
	}
	return h
}

// hashTag returns the second half, which tells the algorithm too, with the version.
func (s *Store) hashTag(v *version, k sluice.Key) uint64 {
	return makeTag(s.second.hash(k.Text())^v.id[1], v.index)
}

// shardOf returns the shard of a key: by its low bits, for the high ones tell
// the position in the table.
func (s *Store) shardOf(key uint64) *shard {
	return &s.shards[key&uint64(len(s.shards)-1)]
}

// ban returns the place of a key's ban, which is that of all algorithms under the limit's
// name: in the same shard, under the same lock.
func (p place) ban() place {
	p.key = p.shard.aside(p.key ^ 0x6a09e667f3bcc909)
	p.tag = makeTag(p.tag^p.v.algorithm, banVersion)
	return p
}

// overflow returns the place of the budget that new keys of a limit share, one
// in each shard.
func (s *Store) overflow(p *place) place {
	o := *p
	o.key = p.shard.aside(p.v.id[0] ^ 0xbb67ae8584caa73b)
	o.tag = makeTag(p.v.id[1], p.v.index)
	return o
}

// aside returns a key that differs from the one given in no more than the bits
// that tell the shard, which are this one's.
func (sh *shard) aside(key uint64) uint64 {
	mask := uint64(len(sh.store.shards) - 1)
	if key = key&^mask | uint64(sh.number); key == 0 {
		return mask + 1
	}
	return key
}

// now tells the time. Called with a slot or a shard locked, it is no earlier than
// any state there, unless Options.Clock has gone back.
func (s *Store) now() int64 {
	if s.asked != nil {
		return s.asked()
	}
	return s.clock.now()
}

// Decide answers one request. It does not allocate for limits whose state is of fixed size.
func (s *Store) Decide(_ context.Context, r sluice.Request) (d sluice.Decision, err error) {
	if err := r.Check(); err != nil {
		return d, err
	}
	v := s.versions.cached(r.Limit)
	if v == nil {
		v = s.version(r.Limit)
	}
	if v.inline && !r.Peek && r.Ban == nil && s.decideFast(v, r.Key, r.Cost, r.Floor, translate.MaxWait(r.MaxWait), &d) {
		return d, nil
	}
	return s.decideSlow(&r)
}

// Take answers a request for cost units and nothing else. See sluice.Taker.
func (s *Store) Take(ctx context.Context, l *sluice.Limit, k sluice.Key, cost int64) (d sluice.Decision, err error) {
	if l != nil && cost >= 0 {
		v := s.versions.cached(l)
		if v != nil && v.inline && s.decideFast(v, k, cost, 0, 0, &d) {
			return d, nil
		}
	}
	return s.Decide(ctx, sluice.Request{Limit: l, Key: k, Cost: cost})
}

// decideFast answers a request about a key that has a slot, in the published
// table, of the request's version, whose state is inline: it locks that slot alone. It
// reports false if the shard must be locked.
func (s *Store) decideFast(v *version, k sluice.Key, cost, floor, maxWait int64, d *sluice.Decision) bool {
	key := s.hashKey(v, k)
	sh := s.shardOf(key)
	t := sh.table.Load()
	slots := t.slots
	i := t.home(key)
	prefetch(&slots[i])
	tag := s.hashTag(v, k)
	a := algo.Request{Cost: cost, Floor: floor, MaxWait: maxWait}
	if s.asked == nil {
		a.Now = s.clock.now() // before the slot is locked, to hold it for less
	}
	i = t.first(i, key)
	for slots[i].tag.Load()&^lockBit != tag {
		if i++; slots[i].key.Load() != key {
			return false
		}
	}
	sl := &slots[i]
	if !sl.lock(tag) {
		return false
	}
	if sh.frozen.Load() || sl.key.Load() != key || v.retired.Load() {
		// The slot may have been moved since: then it has another tag.
		sl.tag.CompareAndSwap(tag|lockBit, tag)
		return false
	}
	if b := v.bucket; b != nil && floor|maxWait == 0 && s.asked == nil {
		if next, short, plain := b.Take(sl.state, a.Now, cost); plain {
			if short == 0 {
				sl.state = next
				d.Allowed = true
				d.Receipt.At = next.T
			} else {
				d.Reason = sluice.ReasonLimited
				d.RetryAfter = translate.Duration(b.Wait(short))
			}
			d.Limit = b.Burst
			d.Remaining = b.Held(next)
			d.ResetAfter = translate.Duration(b.Full(next))
			s.leave(sh, sl, tag, a.Now)
			return true
		}
	}
	if s.asked != nil || a.Now < v.params.LatestState(sl.state) {
		a.Now = s.now()
	}
	var ans algo.Result
	next := v.params.DecideState(sl.state, &a, &ans)
	if next != sl.state {
		sl.state = next
	}
	translate.Fill(d, v.params, &ans)
	s.leave(sh, sl, tag, a.Now)
	return true
}

// leave unlocks the slot of a decision that has been told: unlocking waits for
// what was written, and the caller reads it at once.
func (s *Store) leave(sh *shard, sl *slot, tag uint64, now int64) {
	sl.unlock(tag)
	if now >= sh.nextUpkeep.Load() {
		sh.seeToUpkeep(now)
	}
}

// decideSlow answers any request with the shard locked.
func (s *Store) decideSlow(r *sluice.Request) (d sluice.Decision, err error) {
	p, now, err := s.lock(r.Limit, r.Key)
	if err != nil {
		return d, err
	}
	a := translate.Request(r)
	a.Now = now
	sh := p.shard
	sh.worked = 0
	d = sh.decide(&p, r, &a)
	// Keys that have not been moved yet come here until they are.
	if !r.Peek && sh.worked == 0 && (sh.old != nil || now >= sh.nextUpkeep.Load()) {
		sh.dueUpkeep(now)
		sh.upkeep(moveSlots, sweepHard, now)
	}
	sh.unlock()
	return d, nil
}
