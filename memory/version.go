package memory

import (
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// version is a store's record of a limit. Entries refer to a version by its index. The store needs
// it to sweep a state, and to convert a state when a request has other numbers.
type version struct {
	limit  *sluice.Limit
	params *algo.Params
	inline bool         // its state fits into an entry
	bucket *algo.Bucket // nil unless it is a token bucket without warm-up
	id     [2]uint64    // Limit.ID
	index  uint64
	// retired is set when the index is given up. All stripes are locked then.
	retired atomic.Bool
	// algorithm is the part of id that does not come from the name.
	algorithm uint64
	_         [64]byte // separates fields that are read often from entries, which is written often
	// entries counts the entries that refer to the version, with stripe.uncounted of all stripes.
	entries atomic.Int64
}

// banVersion is the index of the entries that hold bans.
const banVersion = 1

// versions are the limits that a store has seen. Versions to which no entry refers are given up
// when new ones arrive.
type versions struct {
	cache [1024]atomic.Pointer[version]
	byID  atomic.Pointer[[]*version] // by index; nil for unused indexes

	mu      sync.Mutex
	byLimit map[*sluice.Limit]*version
	free    []uint64
	// retireAt is the number of versions at which unused ones are retired.
	retireAt int
	many     atomic.Bool // there are manyVersions or more
}

// manyVersions is how many versions there are at most without making limits on the fly.
const manyVersions = 1 << 9

func (vs *versions) init() {
	vs.byLimit = make(map[*sluice.Limit]*version)
	vs.byID.Store(&[]*version{nil, nil}) // no version, and banVersion
	vs.retireAt = 256
}

// at returns the version with an index.
func (vs *versions) at(index uint64) *version { return (*vs.byID.Load())[index] }

// cached returns the version of a limit if it was used lately, or nil.
func (vs *versions) cached(l *sluice.Limit) *version {
	if v := vs.cache[translate.LimitHash(l)%uint64(len(vs.cache))].Load(); v != nil && v.limit == l {
		return v
	}
	return nil
}

// version returns the version of a limit.
func (s *Store) version(l *sluice.Limit) *version {
	v := s.versions.cached(l)
	if v == nil {
		v = s.register(l)
		s.versions.cache[translate.LimitHash(l)%uint64(len(s.versions.cache))].Store(v)
	}
	return v
}

// forget removes a retired version from the cache. A goroutine that was about to use it may have
// put it back.
func (s *Store) forget(v *version) {
	s.versions.cache[translate.LimitHash(v.limit)%uint64(len(s.versions.cache))].CompareAndSwap(v, nil)
}

func (s *Store) register(l *sluice.Limit) *version {
	vs := &s.versions
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.byLimit[l] == nil && len(vs.byLimit) >= vs.retireAt {
		s.retire()
		vs.retireAt = max(256, 2*len(vs.byLimit))
	}
	return vs.keep(l)
}

// keep returns the version of a limit, and gives up no other. The caller holds mu.
func (vs *versions) keep(l *sluice.Limit) *version {
	if v := vs.byLimit[l]; v != nil {
		return v
	}
	v := &version{
		limit: l, params: l.Params(), inline: l.Params().Inline(),
		id: l.ID(), algorithm: l.ID()[1] ^ l.NameID()[1],
	}
	if v.params.Kind == algo.KindBucket {
		v.bucket = &v.params.Bucket
	}
	// An unused index can be written in place: no entry refers to it yet.
	all := *vs.byID.Load()
	if n := len(vs.free); n > 0 {
		v.index = vs.free[n-1]
		vs.free = vs.free[:n-1]
		all[v.index] = v
	} else {
		v.index = uint64(len(all))
		all = append(all, v)
		vs.byID.Store(&all)
	}
	vs.byLimit[l] = v
	vs.many.Store(len(vs.byLimit) >= manyVersions)
	return v
}

// retire gives up the versions to which no entry refers. With all stripes locked, no goroutine adds
// an entry that refers to such a version. Later requests see the retired mark.
func (s *Store) retire() {
	vs := &s.versions
	for i := range s.stripes {
		s.stripes[i].lock()
		s.stripes[i].settleCount()
	}
	all := *vs.byID.Load()
	for l, v := range vs.byLimit {
		if v.entries.Load() == 0 {
			v.retired.Store(true)
			delete(vs.byLimit, l)
			all[v.index] = nil
			vs.free = append(vs.free, v.index)
		}
	}
	for i := range vs.cache {
		if v := vs.cache[i].Load(); v != nil && v.retired.Load() {
			vs.cache[i].CompareAndSwap(v, nil)
		}
	}
	for i := range s.stripes {
		s.stripes[i].unlock()
	}
}
