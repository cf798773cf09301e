package memory

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// Store keeps the state of limits in this process. It is safe for concurrent use.
type Store struct {
	first     folded
	second    folded
	stripes   []stripe
	clock     clock
	clockFunc func() int64 // Options.Clock

	bytes        atomic.Int64
	banned       atomic.Int64 // the part of bytes that the texts of banned keys take
	maxBytes     int64
	denyWhenFull bool
	versions     versions
	tended       atomic.Uint64 // the stripe whose upkeep another one has done latest
	scratch      sync.Pool     // *batch
	rooms        sync.Pool     // *fastRoom
}

var (
	_ sluice.Store = (*Store)(nil)
	_ driver.Taker = (*Store)(nil)
)

// New returns an empty store. The error names an option that is out of its range.
func New(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{
		first:        newFolded(),
		second:       newFolded(),
		stripes:      make([]stripe, o.Stripes),
		clockFunc:    o.Clock,
		maxBytes:     o.MaxBytes,
		denyWhenFull: o.DenyWhenFull,
	}
	s.bytes.Store(int64(o.Stripes)*stripeBytes + cacheBytes)
	s.clock.init()
	s.versions.init()
	for i := range s.stripes {
		s.stripes[i].init(s, i)
	}
	s.scratch.New = func() any { return new(batch) }
	s.rooms.New = func() any { return new(fastRoom) }
	return s, nil
}

// NewLimiter returns a limiter for a rate such as "100/m", over a store of its own in this
// process. Each key gets a token bucket of that rate, which starts full and holds the rate's
// count. The bucket of this example allows bursts of up to 100 units, and 100 more units per
// minute.
//
// It is the short form for programs that need one limit. For another algorithm, or for limits
// that share a store, use New and sluice.NewLimiter. The limiter's Store is a *Store. The error is a *sluice.RateError or a
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

// MustLimiter is NewLimiter for a rate that is written in the program; it panics on an error.
func MustLimiter(rate string) *sluice.Limiter {
	l, err := NewLimiter(rate)
	if err != nil {
		panic(err)
	}
	return l
}

// Close frees the states. Afterwards all methods of sluice.Store, driver.Taker and sluice.Banner
// return sluice.ErrClosed. The store runs nothing in the background: a store that is not closed
// leaks nothing.
func (s *Store) Close() error {
	for i := range s.stripes {
		sp := &s.stripes[i]
		sp.lock()
		sp.close()
		sp.unlock()
	}
	return nil
}

// now returns the time. It is no earlier than any time in a state that the caller has locked, unless
// Options.Clock went back.
func (s *Store) now() int64 {
	if s.clockFunc != nil {
		return s.clockFunc()
	}
	return s.clock.now()
}

// The memory of a stripe without its keys, and of the cache of limits, rounded up.
const (
	stripeBytes = 1 << 9
	cacheBytes  = 1 << 14
)

// Stats are the figures of a store.
type Stats struct {
	// Keys is the number of states in memory, one for each limit and key. It includes states that
	// equal a fresh one and have not been given up yet.
	Keys int64
	// Bytes is the memory of the store: tables, slabs, and what they need.
	Bytes int64
	// Overflow counts decisions about new keys for which there was no room. Such a key shared a
	// state, or was denied.
	Overflow int64
	// Unlisted counts bans that are enforced but not listed, because there was no room for the
	// texts of their keys. These texts may take a sixteenth of the bytes.
	Unlisted int64
	// Limits is the number of versions of limits for which states are kept.
	Limits int64
}

// Stats returns the current figures. It locks one stripe after the other.
func (s *Store) Stats() Stats {
	st := Stats{Bytes: s.bytes.Load()}
	for i := range s.stripes {
		sp := &s.stripes[i]
		sp.mu.Lock()
		st.Keys += int64(sp.keys())
		st.Overflow += int64(sp.shared)
		st.Unlisted += int64(sp.unlisted)
		sp.mu.Unlock()
	}
	s.versions.mu.Lock()
	st.Limits = int64(len(s.versions.byLimit))
	s.versions.mu.Unlock()
	return st
}

// clock returns the time in microseconds since the epoch: the wall clock at the anchor plus the
// monotonic clock since then. It never goes back. If the wall clock is ahead, after a correction
// or a suspension, the anchor moves forward.
type clock struct {
	start  time.Time    // the monotonic clock's zero
	anchor atomic.Int64 // wall microseconds at start
}

// tolerance is how many microseconds ahead the wall clock must be before the anchor moves.
const tolerance = 1000

func (c *clock) init() {
	c.start = time.Now()
	c.anchor.Store(c.start.UnixMicro())
}

// now reads the monotonic clock.
func (c *clock) now() int64 {
	return c.anchor.Load() + int64(time.Since(c.start))/1000
}

// elapsed returns the microseconds from the clock's start to a time.
func (c *clock) elapsed(at time.Time) int64 { return int64(at.Sub(c.start)) / 1000 }

// follow moves the anchor forward if the wall clock is ahead. Both times must be of one call of time.Now: if the goroutine
// paused between two calls, the pause would count as time by which the wall clock is ahead.
func (c *clock) follow(wall, elapsed int64) {
	anchor := c.anchor.Load()
	if ahead := wall - (anchor + elapsed); ahead > tolerance {
		// If another goroutine has moved the anchor first, a later call tries again.
		c.anchor.CompareAndSwap(anchor, anchor+ahead)
	}
}
