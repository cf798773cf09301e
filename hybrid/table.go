package hybrid

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
)

// table holds the entries, in chains. Requests search a chain without a lock. A search that finds
// nothing may have missed an entry that was just moved, and is repeated with the shard locked.
type table struct {
	seed   maphash.Seed
	most   int // entries in a shard
	shards [shards]shard
	serial atomic.Uint64
}

const (
	shards     = 16
	shardShift = 4
)

type shard struct {
	heads atomic.Pointer[[]atomic.Pointer[entry]]
	mu    sync.Mutex
	all   []*entry // in the order of the clock hand
	hand  int

	closed bool
	_      [64]byte
}

// firstHeads is how many chains a shard has at first.
const firstHeads = 64

func (t *table) init(most int) {
	t.seed = maphash.MakeSeed()
	t.most = max(1, most/shards)
	for i := range t.shards {
		heads := make([]atomic.Pointer[entry], firstHeads)
		t.shards[i].heads.Store(&heads)
	}
}

// hashOf returns the hash of a limit's key. All algorithms under the limit's name have the same.
func (t *table) hashOf(id *[2]uint64, k sluice.Key) uint64 {
	return maphash.String(t.seed, k.Text()) ^ (id[0] + uint64(k.Len())*0x9e3779b97f4a7c15)
}

// lookup returns the entry of a limit's key, or nil.
func (t *table) lookup(l *sluice.Limit, k sluice.Key) *entry {
	id := l.ID()
	hash := t.hashOf(&id, k)
	return t.shards[hash%shards].find(&id, k, hash)
}

// find returns the entry of a limit's key, or nil.
func (sh *shard) find(id *[2]uint64, k sluice.Key, hash uint64) *entry {
	heads := *sh.heads.Load()
	e := heads[hash>>shardShift&uint64(len(heads)-1)].Load()
	for e != nil && (e.hash != hash || e.key != k || e.id != *id) {
		e = e.next.Load()
	}
	return e
}

// mostText bounds the text of a key. Longer keys have no entry.
const mostText = 512

// mostSwept is how many entries an insertion looks at for one to evict.
const mostSwept = 32

// insert adds an entry at a time of the monotonic clock, or returns the entry that is there. It returns
// nil if there is no room.
func (t *table) insert(e *entry, now int64) *entry {
	sh := &t.shards[e.hash%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	heads := *sh.heads.Load()
	if sh.closed {
		return nil
	}
	if old := sh.find(&e.id, e.key, e.hash); old != nil {
		return old
	}
	if len(sh.all) >= t.most && !sh.evict(now) {
		return nil
	}
	if len(sh.all) >= len(heads) {
		heads = sh.grow(heads)
	}
	e.serial = t.serial.Add(1)
	head := &heads[e.hash>>shardShift&uint64(len(heads)-1)]
	e.next.Store(head.Load())
	head.Store(e)
	sh.all = append(sh.all, e)
	return e
}

// grow doubles the chains.
func (sh *shard) grow(old []atomic.Pointer[entry]) []atomic.Pointer[entry] {
	heads := make([]atomic.Pointer[entry], 2*len(old))
	sh.heads.Store(&heads)
	for _, e := range sh.all {
		head := &heads[e.hash>>shardShift&uint64(len(heads)-1)]
		e.next.Store(head.Load())
		head.Store(e)
	}
	return heads
}

// evict drops an entry that nothing depends on: a clock hand passes over the entries, and drops the
// first that was not used since its last round. It reports whether it found one.
func (sh *shard) evict(now int64) bool {
	for range mostSwept {
		if sh.hand >= len(sh.all) {
			sh.hand = 0
		}
		e := sh.all[sh.hand]
		e.lock()
		if e.used || e.awake || e.called || !e.idle() || e.owes(now) {
			e.used = false
			e.unlock()
			sh.hand++
			continue
		}
		e.die()
		e.unlock()
		sh.unlink(e)
		last := len(sh.all) - 1
		sh.all[sh.hand] = sh.all[last]
		sh.all[last] = nil
		sh.all = sh.all[:last]
		return true
	}
	return false
}

// unlink takes an entry out of its chain. Searches that have reached it go on from there.
func (sh *shard) unlink(e *entry) {
	heads := *sh.heads.Load()
	at := &heads[e.hash>>shardShift&uint64(len(heads)-1)]
	for at.Load() != e {
		at = &at.Load().next
	}
	at.Store(e.next.Load())
}

// die ends an entry that is locked.
func (e *entry) die() {
	e.dead = true
	if e.hand.birth != 0 {
		e.counts.expired += uint64(e.hand.placed)
	}
	if q := e.open; q != nil && q.claim.Birth != 0 {
		e.counts.expired += uint64(q.claim.Spent + q.claim.Returned)
	}
	e.hand = hand{}
	e.denial, e.pace = denial{}, pace{}
	e.terms.entries.Add(-1)
	e.fold()
}

// each calls f for all entries, unlocked.
func (t *table) each(f func(e *entry)) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		all := append([]*entry(nil), sh.all...)
		sh.mu.Unlock()
		for _, e := range all {
			f(e)
		}
	}
}

// noHeads holds the chains of closed tables: searches find nothing.
var noHeads = make([]atomic.Pointer[entry], 1)

// close forgets all entries.
func (t *table) close() {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		all := sh.all
		sh.all, sh.closed = nil, true
		heads := noHeads
		sh.heads.Store(&heads)
		sh.mu.Unlock()
		for _, e := range all {
			e.lock()
			if !e.dead {
				e.die()
			}
			e.unlock()
		}
	}
}
