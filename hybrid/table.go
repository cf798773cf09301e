package hybrid

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
)

// table holds the entries, in chains. Requests search a chain without a lock. A search that finds
// nothing may have missed an entry that was just moved, and is repeated with the stripe locked.
type table struct {
	seed    maphash.Seed
	most    int // entries in a stripe
	stripes [stripes]stripe
	serial  atomic.Uint64
}

const (
	stripes     = 16
	stripeShift = 4
)

type stripe struct {
	heads atomic.Pointer[[]atomic.Pointer[entry]]
	mu    sync.Mutex
	all   []*entry // in the order of the clock hand
	hand  int

	closed bool
	_      [64]byte
}

// firstHeads is how many chains a stripe has at first.
const firstHeads = 64

func (t *table) init(most int) {
	t.seed = maphash.MakeSeed()
	t.most = max(1, most/stripes)
	for i := range t.stripes {
		heads := make([]atomic.Pointer[entry], firstHeads)
		t.stripes[i].heads.Store(&heads)
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
	return t.stripes[hash%stripes].find(&id, k, hash)
}

// find returns the entry of a limit's key, or nil.
func (sp *stripe) find(id *[2]uint64, k sluice.Key, hash uint64) *entry {
	heads := *sp.heads.Load()
	e := heads[hash>>stripeShift&uint64(len(heads)-1)].Load()
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
	sp := &t.stripes[e.hash%stripes]
	sp.mu.Lock()
	defer sp.mu.Unlock()
	heads := *sp.heads.Load()
	if sp.closed {
		return nil
	}
	if old := sp.find(&e.id, e.key, e.hash); old != nil {
		return old
	}
	if len(sp.all) >= t.most && !sp.evict(now) {
		return nil
	}
	if len(sp.all) >= len(heads) {
		heads = sp.grow(heads)
	}
	e.serial = t.serial.Add(1)
	head := &heads[e.hash>>stripeShift&uint64(len(heads)-1)]
	e.next.Store(head.Load())
	head.Store(e)
	sp.all = append(sp.all, e)
	return e
}

// grow doubles the chains.
func (sp *stripe) grow(old []atomic.Pointer[entry]) []atomic.Pointer[entry] {
	heads := make([]atomic.Pointer[entry], 2*len(old))
	sp.heads.Store(&heads)
	for _, e := range sp.all {
		head := &heads[e.hash>>stripeShift&uint64(len(heads)-1)]
		e.next.Store(head.Load())
		head.Store(e)
	}
	return heads
}

// evict drops an entry that nothing depends on: a clock hand passes over the entries, and drops the
// first that was not used since its last round. It reports whether it found one.
func (sp *stripe) evict(now int64) bool {
	for range mostSwept {
		if sp.hand >= len(sp.all) {
			sp.hand = 0
		}
		e := sp.all[sp.hand]
		e.lock()
		if e.used || e.awake || e.called || !e.idle() || e.owes(now) {
			e.used = false
			e.unlock()
			sp.hand++
			continue
		}
		e.die()
		e.unlock()
		sp.unlink(e)
		last := len(sp.all) - 1
		sp.all[sp.hand] = sp.all[last]
		sp.all[last] = nil
		sp.all = sp.all[:last]
		return true
	}
	return false
}

// unlink takes an entry out of its chain. Searches that have reached it go on from there.
func (sp *stripe) unlink(e *entry) {
	heads := *sp.heads.Load()
	at := &heads[e.hash>>stripeShift&uint64(len(heads)-1)]
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
	for i := range t.stripes {
		sp := &t.stripes[i]
		sp.mu.Lock()
		all := append([]*entry(nil), sp.all...)
		sp.mu.Unlock()
		for _, e := range all {
			f(e)
		}
	}
}

// noHeads holds the chains of closed tables: searches find nothing.
var noHeads = make([]atomic.Pointer[entry], 1)

// close forgets all entries.
func (t *table) close() {
	for i := range t.stripes {
		sp := &t.stripes[i]
		sp.mu.Lock()
		all := sp.all
		sp.all, sp.closed = nil, true
		heads := noHeads
		sp.heads.Store(&heads)
		sp.mu.Unlock()
		for _, e := range all {
			e.lock()
			if !e.dead {
				e.die()
			}
			e.unlock()
		}
	}
}
