package memory

import (
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice/internal/algo"
)

// shard holds a part of the keys.
//
// Most decisions are about a key that has an entry: they find it in the published table and lock
// that entry only (see Store.decideFast). All other operations lock the shard. They take the
// mutex, which excludes other operations. They also freeze the shard, which keeps decisions from
// locking entries. A decision first locks its entry and then reads frozen; an operation first sets
// frozen and then reads the lock bits. So at least one of the two sees the other.
type shard struct {
	// What fast decisions read, in a cache line that is seldom written.
	table      atomic.Pointer[table] // where keys are, or are being moved from
	frozen     atomic.Bool
	nextUpkeep atomic.Int64 // the time at which a fast decision does upkeep next
	_          [40]byte

	mu    sync.Mutex
	store *Store
	now   *table // where keys are, or are being moved to
	// old is the table from which keys are being moved, if there is one. Keys above moved are
	// still in it, at oldest or beyond. It is the published table until all keys are moved.
	old    *table
	oldest int
	moved  uint64

	sweepAt int
	worked  int   // entries moved or swept by the last operation that did so
	inVain  int   // how many new keys in a row made no room by a sweep
	gaveUp  int64 // the latest time at which a state was given up
	// uncounted is what counted.entries lacks.
	counted   *version
	uncounted int64
	// pinned keeps states that equal fresh ones, because a batch has prepared entries.
	pinned  bool
	refused bool // the table could not grow, for lack of memory
	closed  bool
	number  int
	shared  uint64 // decisions that shared a state, or were denied, for lack of room

	slab     slab
	banned   map[banID]bannedKey // the bans that can be listed
	unlisted uint64              // bans without room in banned
	_        [64]byte
}

// lock keeps all other goroutines out of the shard, except decisions that have already locked an
// entry.
func (sh *shard) lock() {
	sh.mu.Lock()
	sh.frozen.Store(true)
}

func (sh *shard) unlock() {
	sh.frozen.Store(sh.closed)
	sh.mu.Unlock()
}

// publish makes t the table where decisions search keys.
func (sh *shard) publish(t *table) {
	sh.now = t
	t.published = true
	sh.table.Store(t)
}

func (sh *shard) init(s *Store, number int) {
	sh.store, sh.number = s, number
	sh.publish(newTable(firstSize))
	sh.slab.last = -1
	s.bytes.Add(sh.now.bytes())
}

func (sh *shard) close() {
	if sh.closed {
		return
	}
	sh.closed = true
	n := sh.now.bytes() + sh.slab.bytes
	if sh.old != nil {
		n += sh.old.bytes()
	}
	for _, b := range sh.banned {
		n += b.bytes()
		sh.store.banned.Add(-b.bytes())
	}
	sh.banned = nil
	sh.store.bytes.Add(-n)
	sh.publish(newTable(firstSize)) // fast decisions may still search it, and find nothing
	sh.old, sh.slab = nil, slab{last: -1}
}

// tableOf returns the table to which a key belongs, and the position at which to begin the
// search.
func (sh *shard) tableOf(key uint64) (*table, int) {
	if sh.old != nil && key > sh.moved {
		return sh.old, max(sh.old.home(key), sh.oldest)
	}
	return sh.now, sh.now.home(key)
}

// lookup returns the entry at a location, unlocked, or nil.
func (sh *shard) lookup(p *location) *entry {
	t, from := sh.tableOf(p.key)
	if i, ok := t.find(from, p.key, p.tag); ok {
		t.entries[i].hold()
		return &t.entries[i]
	}
	return nil
}

// keys returns the number of keys that have an entry.
func (sh *shard) keys() int {
	if sh.old != nil {
		return sh.now.used + sh.old.used
	}
	return sh.now.used
}

// fresh reports whether time has made an entry equal to the entry of a new key.
func (sh *shard) fresh(e *entry, now int64) bool {
	e.hold()
	index := e.version()
	if index == banVersion {
		return (&algo.Ban{}).Fresh(e.state, now)
	}
	p := sh.store.versions.at(index).params
	if p.Inline() {
		return p.FreshState(e.state, now)
	}
	return e.state.T == 0 || p.FreshWords(sh.words(e), now)
}

// spare reports whether an entry may be given up: it equals the entry of a new key, and already did
// so stay microseconds ago.
func (sh *shard) spare(e *entry, stay, now int64) bool {
	e.hold()
	index := e.version()
	if index == banVersion {
		return (&algo.Ban{}).Fresh(e.state, now)
	}
	p := sh.store.versions.at(index).params
	if p.Inline() {
		return p.FreshState(e.state, max(0, now-stay)) && p.FreshState(e.state, now)
	}
	if e.state.T == 0 {
		return true
	}
	// A block is more memory than an entry, and is soon given up.
	stay = min(stay, briefStay)
	w := sh.words(e)
	if p.Kind == algo.KindConcurrency && now-stay < p.Conc.Latest(w) && p.Conc.Latest(w) <= now {
		return false // its leases have been released since then
	}
	return p.FreshWords(w, max(0, now-stay)) && p.FreshWords(w, now)
}

// drop releases what an entry refers to, before it is removed.
func (sh *shard) drop(e *entry) {
	index := e.version()
	if index == banVersion {
		sh.dropText(banID{e.key.Load(), e.tag.Load()})
		return
	}
	v := sh.store.versions.at(index)
	if !v.params.Inline() {
		sh.freeBlock(e)
	}
	sh.count(v, -1)
}

// count adds to the number of entries that refer to a version. The shard keeps the sum for the
// latest version, because many processors may use the version at once.
func (sh *shard) count(v *version, n int64) {
	if v != sh.counted {
		sh.settleCount()
		sh.counted = v
	}
	sh.uncounted += n
}

// settleCount adds what the shard has counted to the version.
func (sh *shard) settleCount() {
	if sh.uncounted != 0 {
		sh.counted.entries.Add(sh.uncounted)
	}
	sh.counted, sh.uncounted = nil, 0
}

// remove removes the entry at a location.
func (sh *shard) remove(p *location) {
	t, from := sh.tableOf(p.key)
	if i, ok := t.find(from, p.key, p.tag); ok {
		t.entries[i].hold()
		sh.drop(&t.entries[i])
		t.remove(i)
	}
}

// add returns a new entry for a location, or nil if there is no room. With reserve it may use the
// last part of the table.
func (sh *shard) add(p *location, now int64, reserve bool) *entry {
	if !sh.makeRoom(p.key, now) && (!reserve || uint64(sh.keys())*lastDen >= sh.now.size*lastNum) {
		return nil
	}
	t, from := sh.tableOf(p.key)
	i, _ := t.find(from, p.key, p.tag)
	if !t.insert(i, p.key, p.tag, algo.State{}) {
		if t != sh.old {
			return nil
		}
		// The rest of the old table has no room for the key: move all keys now.
		sh.move(len(t.entries), now)
		t = sh.now
		if i, _ = t.find(t.home(p.key), p.key, p.tag); !t.insert(i, p.key, p.tag, algo.State{}) {
			return nil
		}
	}
	if p.tag>>1&versionMask != banVersion {
		sh.count(p.v, 1)
	}
	return &t.entries[i]
}
