package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// Store keeps the state of limits in this process. It is safe for concurrent use.
type Store struct {
	seeds  [2]maphash.Seed
	shards []shard
	shift  int // of the tag, to the number of a shard
	clock  *clock
	asked  func() int64 // Options.Clock
	closed atomic.Bool

	bytes        atomic.Int64
	maxBytes     int64
	denyWhenFull bool
	versions     versions
	scratch      sync.Pool // *batch
}

var _ sluice.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{
		seeds:        [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		shards:       make([]shard, o.Shards),
		shift:        64 - bits.TrailingZeros(uint(o.Shards)),
		clock:        newClock(),
		asked:        o.Clock,
		maxBytes:     o.MaxBytes,
		denyWhenFull: o.DenyWhenFull,
	}
	s.versions.init()
	for i := range s.shards {
		s.shards[i].init(s, i)
	}
	s.scratch.New = func() any { return new(batch) }
	return s, nil
}

// Close frees the states. The store runs nothing in the background: a store that
// is not closed leaks nothing. All methods return sluice.ErrClosed afterwards.
func (s *Store) Close() error {
	s.closed.Store(true)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.close()
		sh.mu.Unlock()
	}
	return nil
}

// place is where the state of a limit's key belongs.
type place struct {
	key, tag uint64
	v        *version
	shard    *shard
}

// locate hashes a key, together with the identity of its limit's name.
func (s *Store) locate(v *version, k sluice.Key) place {
	h1 := maphash.String(s.seeds[0], k.Text())
	h2 := maphash.String(s.seeds[1], k.Text())
	// The number of parts is a part of the identity.
	h1 ^= v.id[0] + uint64(k.Len())*0x9e3779b97f4a7c15
	h2 ^= v.id[1]
	return s.place(h1, h2, v)
}

func (s *Store) place(h1, h2 uint64, v *version) place {
	if h1 == 0 {
		h1 = 1 // zero marks an empty slot
	}
	return place{h1, h2&^versionMask | v.index, v, &s.shards[h2>>s.shift&uint64(len(s.shards)-1)]}
}

// ban returns the place of a key's ban: in the same shard, under the same lock.
func (p place) ban() place {
	p.key ^= 0x6a09e667f3bcc909
	if p.key == 0 {
		p.key = 1
	}
	p.tag = p.tag&^versionMask | banVersion
	return p
}

// overflow returns the place of the budget that new keys of a limit share, one
// in each shard.
func (s *Store) overflow(p *place) place {
	o := *p
	o.key = p.v.id[0] ^ 0xbb67ae8584caa73b
	if o.key == 0 {
		o.key = 1
	}
	o.tag = p.v.id[1]&^versionMask | p.v.index
	return o
}

// Decide answers one request. It does not allocate for limits whose state is of fixed size.
func (s *Store) Decide(_ context.Context, r sluice.Request) (sluice.Decision, error) {
	if err := r.Check(); err != nil {
		return sluice.Decision{}, err
	}
	v := s.version(r.Limit)
	p := s.locate(v, r.Key)
	a := ask(&r)
	if s.asked == nil {
		a.Now = s.clock.now()
	}
	p.shard.mu.Lock()
	for v.retired {
		p.shard.mu.Unlock()
		v = s.register(r.Limit)
		p = s.locate(v, r.Key)
		p.shard.mu.Lock()
	}
	if p.shard.closed {
		p.shard.mu.Unlock()
		return sluice.Decision{}, sluice.ErrClosed
	}
	p.shard.tick(&a.Now)
	d := p.shard.decide(&p, &r, &a)
	p.shard.mu.Unlock()
	return d, nil
}

// ask puts a request in the terms of its algorithm.
func ask(r *sluice.Request) algo.Ask {
	return algo.Ask{Cost: r.Cost, Floor: r.Floor, MaxWait: waitMicros(r.MaxWait), Member: r.Member}
}

// waitMicros rounds a wait down to microseconds; one that is shorter is none.
func waitMicros(d time.Duration) int64 {
	if d > 0 && d < time.Microsecond {
		return -1
	}
	if d < 0 {
		return -1
	}
	return int64(d / time.Microsecond)
}

// decision puts an answer in the caller's terms.
func decision(v *version, ans *algo.Answer) sluice.Decision {
	return sluice.Decision{
		Allowed:    ans.Allowed,
		Reason:     sluice.Reason(ans.Reason),
		Limit:      v.params.Capacity,
		Remaining:  ans.Remaining,
		Delay:      time.Duration(ans.Delay) * time.Microsecond,
		RetryAfter: time.Duration(ans.RetryAfter) * time.Microsecond,
		ResetAfter: time.Duration(ans.ResetAfter) * time.Microsecond,
		Receipt:    sluice.Receipt{At: ans.At, Over: ans.Over},
	}
}
