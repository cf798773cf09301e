package hybrid

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// Store is a sluice.Store that decides on granted units. It wraps a driver.Grantor. Most programs
// pass it to sluice.NewLimiter, or to guard.New. Call Drain before the program ends, so that other
// processes get its units at once. A Store is safe for concurrent use.
//
// It runs one goroutine, which synchronises all keys, and a bounded number of goroutines for its
// calls. Close ends them.
type Store struct {
	backend  driver.Grantor
	sharded  driver.Sharded // the backend, or nil
	banner   sluice.Banner  // the backend, or nil
	holder   uint64
	deadline time.Duration
	clock    clock
	table    table
	registry registry
	trip     trip
	seq      atomic.Uint64

	draining atomic.Bool
	closed   atomic.Bool
	stop     context.CancelFunc
	base     context.Context // of the calls of the synchronisation
	ended    chan struct{}   // closed at the end of the goroutine

	wakeUp  chan struct{} // holds a value while there are entries to synchronise
	waking  sync.Mutex
	first   *entry // the entries to synchronise soon
	flights chan struct{}

	rooms sync.Pool // *batchRoom

	chance sync.Mutex
	source *rand.Rand
}

var (
	_ driver.Grantor      = (*Store)(nil)
	_ driver.Taker        = (*Store)(nil)
	_ driver.Sharded      = (*Store)(nil)
	_ sluice.Banner       = (*Store)(nil)
	_ driver.LocalDecider = (*Store)(nil)
)

// New returns a store over a store that grants units. It does not close that store. The error names the wrong option.
func New(backend driver.Grantor, o Options) (*Store, error) {
	if err := o.complete(backend); err != nil {
		return nil, err
	}
	s := &Store{
		backend: backend, holder: o.Holder, deadline: o.Deadline,
		clock:    clock{start: time.Now(), wall: o.Wall},
		registry: registry{byLimit: map[*sluice.Limit]*terms{}, tallies: map[[2]uint64]*tally{}, hotFrom: hotFrom},
		ended:    make(chan struct{}),
		wakeUp:   make(chan struct{}, 1),
		flights:  make(chan struct{}, mostFlights),
		source:   rand.New(rand.NewPCG(o.Seed, o.Holder)),
	}
	s.rooms.New = func() any { return new(batchRoom) }
	s.sharded, _ = sluice.As[driver.Sharded](backend)
	s.banner, _ = sluice.As[sluice.Banner](backend)
	s.table.init(o.MaxKeys)
	// A process that starts again with the same holder begins with later numbers than before.
	s.seq.Store(uint64(s.clock.now().wall / 1000))
	s.base, s.stop = context.WithCancel(context.Background())
	go s.run()
	return s, nil
}

// Close ends the synchronisation. Afterwards all methods return sluice.ErrClosed. Units in hand
// count as used when their grants expire; call Drain first to return them. Close does not close the
// wrapped store, and does not wait for its calls.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	<-s.ended
	s.table.close()
	return nil
}

// random returns a number from 0 to 1.
func (s *Store) random() float64 {
	s.chance.Lock()
	defer s.chance.Unlock()
	return s.source.Float64()
}

// mostSeq bounds the numbers of claims.
const mostSeq = 1<<53 - 1

// skip continues with later numbers of claims, because the store has handled a later one of a
// process with this holder.
func (s *Store) skip(now int64) {
	const far = 1 << 30 // a quarter of an hour in microseconds
	for {
		old := s.seq.Load()
		if s.seq.CompareAndSwap(old, min(max(old+far, uint64(max(0, now))), mostSeq/2)) {
			return
		}
	}
}

// entry returns the entry of a limit's key, and adds it if necessary. It returns nil if there is no
// room.
func (s *Store) entry(l *sluice.Limit, k sluice.Key) *entry {
	id := l.ID()
	hash := s.table.hashOf(&id, k)
	if e := s.table.stripes[hash%stripes].find(&id, k, hash); e != nil {
		return e
	}
	if len(k.Text()) > mostText {
		return nil
	}
	v := s.registry.of(l)
	e := &entry{hash: hash, id: id, key: cloned(k), limit: l, terms: v, used: true}
	now := s.clock.now().mono
	e.demand.began = now
	if v.credit > 0 {
		e.hand = hand{left: v.credit, placed: v.credit, deadline: never}
		e.low = v.credit
	}
	got := s.table.insert(e, now)
	if got != e {
		v.entries.Add(-1)
	}
	return got
}
