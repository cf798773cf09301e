package memory

import (
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice/internal/algo"
)

// stripe holds a part of the keys.
//
// Most decisions are about a key that has an entry: they find it in the published table and lock
// that entry only (see Store.decideFast). All other operations lock the stripe. They take the
// mutex, which excludes other operations. They also freeze the stripe, which keeps decisions from
// locking entries. A decision first locks its entry and then reads frozen; an operation first sets
// frozen and then reads the lock bits. So at least one of the two sees the other.
type stripe struct {
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

	sweepAt   int
	nextSweep int64 // the time at which upkeep sweeps next
	worked    int   // entries moved or swept by the last operation that did so
	inVain    int   // how many new keys in a row made no room by a sweep
	gaveUp    int64 // the latest time at which a state was given up
	// uncounted is how many entries refer to the version counted, and are not yet in its counter: see count.
	counted   *version
	uncounted int64
	// pinned keeps states that equal fresh ones, because a batch has prepared entries.
	pinned  bool
	refused bool // the table could not grow, for lack of memory
	closed  bool
	number  int
	shared  uint64 // decisions that shared a state, or were denied, for lack of room

	slab     slab
	holds    holds
	banned   map[banID]bannedKey // the bans that can be listed
	unlisted uint64              // bans without room in banned
	_        [64]byte
}

// lock keeps all other goroutines out of the stripe, except decisions that have already locked an
// entry.
func (sp *stripe) lock() {
	sp.mu.Lock()
	sp.frozen.Store(true)
}

func (sp *stripe) unlock() {
	sp.frozen.Store(sp.closed)
	sp.mu.Unlock()
}

// publish makes t the table where decisions search keys.
func (sp *stripe) publish(t *table) {
	sp.now = t
	t.published = true
	sp.table.Store(t)
}

func (sp *stripe) init(s *Store, number int) {
	sp.store, sp.number = s, number
	sp.publish(newTable(firstSize))
	sp.slab.last = -1
	s.bytes.Add(sp.now.bytes())
}

func (sp *stripe) close() {
	if sp.closed {
		return
	}
	sp.closed = true
	n := sp.now.bytes() + sp.slab.bytes
	if sp.old != nil {
		n += sp.old.bytes()
	}
	n += heldBytes * int64(len(sp.holds.queue))
	sp.holds = holds{}
	for _, b := range sp.banned {
		n += b.bytes()
		sp.store.banned.Add(-b.bytes())
	}
	sp.banned = nil
	sp.store.bytes.Add(-n)
	sp.publish(newTable(firstSize)) // fast decisions may still search it, and find nothing
	sp.old, sp.slab = nil, slab{last: -1}
}

// tableOf returns the table to which a key belongs, and the position at which to begin the
// search.
func (sp *stripe) tableOf(key uint64) (*table, int) {
	if sp.old != nil && key > sp.moved {
		return sp.old, max(sp.old.home(key), sp.oldest)
	}
	return sp.now, sp.now.home(key)
}

// lookup returns the entry at a location, unlocked, or nil.
func (sp *stripe) lookup(p *location) *entry {
	t, from := sp.tableOf(p.key)
	if i, ok := t.find(from, p.key, p.tag); ok {
		t.entries[i].hold()
		return &t.entries[i]
	}
	return nil
}

// keys returns the number of keys that have an entry.
func (sp *stripe) keys() int {
	if sp.old != nil {
		return sp.now.used + sp.old.used
	}
	return sp.now.used
}

// fresh reports whether time has made an entry equal to the entry of a new key.
func (sp *stripe) fresh(e *entry, now int64) bool {
	e.hold()
	index := e.version()
	if index == banVersion {
		return (&algo.Ban{}).Fresh(e.state, now)
	}
	p := sp.store.versions.at(index).params
	if p.Inline() {
		return p.FreshState(e.state, now)
	}
	return e.state.T == 0 || p.FreshWords(sp.words(e), now)
}

// spare reports whether an entry may be given up: it equals the entry of a new key, and already did
// so stay microseconds ago.
func (sp *stripe) spare(e *entry, stay, now int64) bool {
	e.hold()
	index := e.version()
	if index == banVersion {
		return (&algo.Ban{}).Fresh(e.state, now)
	}
	p := sp.store.versions.at(index).params
	if p.Inline() {
		return p.FreshState(e.state, max(0, now-stay)) && p.FreshState(e.state, now)
	}
	if e.state.T == 0 {
		return true
	}
	// A block is more memory than an entry, and is soon given up.
	stay = min(stay, briefStay)
	w := sp.words(e)
	if p.Kind == algo.KindConcurrency && now-stay < p.Conc.Latest(w) && p.Conc.Latest(w) <= now {
		return false // its leases have been released since then
	}
	return p.FreshWords(w, max(0, now-stay)) && p.FreshWords(w, now)
}

// drop releases what an entry refers to, before it is removed.
func (sp *stripe) drop(e *entry) {
	index := e.version()
	if index == banVersion {
		sp.dropText(banID{e.key.Load(), e.tag.Load()})
		return
	}
	v := sp.store.versions.at(index)
	if !v.params.Inline() {
		sp.freeBlock(e)
	}
	sp.count(v, -1)
}

// count adds to the number of entries that refer to a version. The stripe keeps the sum for the
// latest version, because many processors may use the version at once.
func (sp *stripe) count(v *version, n int64) {
	if v != sp.counted {
		sp.settleCount()
		sp.counted = v
	}
	sp.uncounted += n
}

// settleCount adds what the stripe has counted to the version.
func (sp *stripe) settleCount() {
	if sp.uncounted != 0 {
		sp.counted.entries.Add(sp.uncounted)
	}
	sp.counted, sp.uncounted = nil, 0
}

// remove removes the entry at a location.
func (sp *stripe) remove(p *location) {
	t, from := sp.tableOf(p.key)
	if i, ok := t.find(from, p.key, p.tag); ok {
		t.entries[i].hold()
		sp.drop(&t.entries[i])
		t.remove(i)
	}
}

// add returns a new entry for a location, or nil if there is no room. With reserve it may use the
// last part of the table.
func (sp *stripe) add(p *location, now int64, reserve bool) *entry {
	if !sp.makeRoom(p.key, now) && (!reserve || uint64(sp.keys())*lastDen >= sp.now.size*lastNum) {
		return nil
	}
	t, from := sp.tableOf(p.key)
	i, _ := t.find(from, p.key, p.tag)
	if !t.insert(i, p.key, p.tag, algo.State{}) {
		if t != sp.old {
			return nil
		}
		// The rest of the old table has no room for the key: move all keys now.
		sp.move(len(t.entries), now)
		t = sp.now
		if i, _ = t.find(t.home(p.key), p.key, p.tag); !t.insert(i, p.key, p.tag, algo.State{}) {
			return nil
		}
	}
	if p.tag>>1&versionMask != banVersion {
		sp.count(p.v, 1)
	}
	return &t.entries[i]
}
