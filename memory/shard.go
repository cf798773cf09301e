package memory

import (
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice/algo"
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
	table      atomic.Pointer[table] // where keys are, or are being moved to
	frozen     atomic.Bool
	nextUpkeep atomic.Int64 // the time at which a fast decision does upkeep next
	_          [40]byte

	mu    sync.Mutex
	store *Store
	now   *table // the table published in table
	// old is the table from which keys are being moved, if there is one. Keys above moved are
	// still in it, at oldest or beyond.
	old    *table
	oldest int
	moved  uint64

	slab    slab
	sweepAt int
	number  int
	// pinned keeps states that equal fresh ones, because a batch has prepared entries.
	pinned bool
	closed bool
	shared uint64 // decisions that shared a state, or were denied, for lack of room
	worked int    // entries moved or swept by the last operation that did so

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

// publish makes t the table where keys are, or are being moved to.
func (sh *shard) publish(t *table) {
	sh.now = t
	sh.table.Store(t)
}

func (sh *shard) init(s *Store, number int) {
	sh.store, sh.number = s, number
	sh.publish(newTable(firstSize))
	sh.slab.last = -1
	s.bytes.Add(sh.now.bytes())
}

// noKeys is the table of closed shards: fast decisions may still search it, and find nothing.
var noKeys = newTable(firstSize)

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
	sh.publish(noKeys)
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
	v.entries.Add(-1)
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
	if !sh.makeRoom(now) && (!reserve || uint64(sh.keys())*lastDen >= sh.now.size*lastNum) {
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
		p.v.entries.Add(1)
	}
	return &t.entries[i]
}
