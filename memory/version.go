package memory

import (
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// version is a limit as this store knows it: entries refer to it by its index, so
// that what is kept in an entry can be swept, and converted when the limit is asked for
// with other numbers.
type version struct {
	limit  *sluice.Limit
	params *algo.Params
	inline bool         // its state fits into an entry
	bucket *algo.Bucket // of a token bucket without warm-up, nil for others
	id     [2]uint64    // of the limit's name and algorithm
	index  uint64
	// retired is set, with all shards locked, when index has been given up.
	retired atomic.Bool
	// algorithm is what of id is not the name's.
	algorithm uint64
	_         [64]byte // what is read often, and what is written often
	// entries counts those that refer to the version.
	entries atomic.Int64
}

// banVersion is the index of the entries that hold bans.
const banVersion = 1

// versions knows the limits that a store has been asked for. Those that no entry
// refers to are given up when new ones come.
type versions struct {
	cache [1024]atomic.Pointer[version]
	byID  atomic.Pointer[[]*version] // by index; nil where there is none

	mu      sync.Mutex
	byLimit map[*sluice.Limit]*version
	free    []uint64
	// retireAt is the number of versions at which unused ones are looked for.
	retireAt int
}

func (vs *versions) init() {
	vs.byLimit = make(map[*sluice.Limit]*version)
	vs.byID.Store(&[]*version{nil, nil}) // no version, and banVersion
	vs.retireAt = 256
}

// at returns the version with an index.
func (vs *versions) at(index uint64) *version { return (*vs.byID.Load())[index] }

// cached returns what the store knows a limit by, if it was asked for lately.
func (vs *versions) cached(l *sluice.Limit) *version {
	if v := vs.cache[l.ID()[0]%uint64(len(vs.cache))].Load(); v != nil && v.limit == l {
		return v
	}
	return nil
}

// version returns what the store knows a limit by.
func (s *Store) version(l *sluice.Limit) *version {
	v := s.versions.cached(l)
	if v == nil {
		v = s.register(l)
		s.versions.cache[l.ID()[0]%uint64(len(s.versions.cache))].Store(v)
	}
	return v
}

// forget drops a retired version from the cache, where a goroutine that was about
// to ask for it may have put it back.
func (s *Store) forget(v *version) {
	s.versions.cache[v.id[0]%uint64(len(s.versions.cache))].CompareAndSwap(v, nil)
}

func (s *Store) register(l *sluice.Limit) *version {
	vs := &s.versions
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := vs.byLimit[l]; v != nil {
		return v
	}
	if len(vs.byLimit) >= vs.retireAt {
		s.retire()
		vs.retireAt = max(256, 2*len(vs.byLimit))
	}
	v := &version{
		limit: l, params: l.Params(), inline: l.Params().Inline(),
		id: l.ID(), algorithm: l.ID()[1] ^ l.NameID()[1],
	}
	if v.params.Kind == algo.KindBucket {
		v.bucket = &v.params.Bucket
	}
	// Places that nobody can look at are written in place: no entry refers to the
	// version yet.
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
	return v
}

// retire gives up the versions that no entry refers to. With all shards locked,
// nobody is about to make an entry that does: who comes later sees the mark.
func (s *Store) retire() {
	vs := &s.versions
	for i := range s.shards {
		s.shards[i].lock()
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
	for i := range s.shards {
		s.shards[i].unlock()
	}
}
