package floor

import (
	"hash/maphash"
	"runtime"
	"sync/atomic"
	"time"
)

// recordsPerLine is how many 32-byte records a 64-byte cache line holds.
const recordsPerLine = 2

// Decision is floor-decision: the smallest cost of a token bucket per key that reads the clock and
// cannot confuse two keys. One decision is
//
//   - two seeded 64-bit hashes of the key, which are its identity;
//   - one reading of the monotonic clock;
//   - the search for both hashes within a cache line;
//   - one compare-and-swap of the 8-byte state in that line.
//
// The state is the time at which the bucket will be full again: a token bucket in one word. A denial
// changes nothing, so it does the same work without the compare-and-swap. To compare with a limiter that
// writes its line, use decisions that admit. It is safe for concurrent use.
type Decision struct {
	records     []record
	mask        uint64 // over records
	seed0       maphash.Seed
	seed1       maphash.Seed
	anchor      time.Time
	every, full int64 // nanoseconds: for one unit, for the whole burst
}

// A record is 32 bytes without pointers, of which 24 are used. A free record has an id0 of 0. While a
// goroutine claims a record, its id1 is 0.
type record struct {
	id0, id1 atomic.Uint64
	fullAt   atomic.Int64 // nanoseconds since the anchor
	_        uint64
}

// NewDecision returns a table of at least the given number of records, rounded
// up to a power of two, in which each key may take burst units at once and
// gets one back per every. For one cache line per decision, fill at most half.
func NewDecision(records int, every time.Duration, burst int) *Decision {
	n := roundUp(records, recordsPerLine)
	return &Decision{
		records: make([]record, n),
		mask:    uint64(n - 1),
		seed0:   maphash.MakeSeed(),
		seed1:   maphash.MakeSeed(),
		anchor:  time.Now(),
		every:   int64(every),
		full:    int64(every) * int64(burst),
	}
}

// Take takes one unit for key, now, and reports whether there was one.
func (d *Decision) Take(key string) bool {
	return d.takeAt(int64(time.Since(d.anchor)), key)
}

func (d *Decision) takeAt(now int64, key string) bool {
	r := d.find(maphash.String(d.seed0, key), maphash.String(d.seed1, key))
	if r == nil {
		return false
	}
	for {
		old := r.fullAt.Load()
		fullAt := max(old, now) + d.every
		if fullAt-now > d.full {
			return false
		}
		if r.fullAt.CompareAndSwap(old, fullAt) {
			return true
		}
	}
}

// find returns the record of an identity, or nil if the table is full. It claims a free record for a new
// identity, and searches a whole line before the next. A free record already has the state of a fresh
// bucket, which is full at the anchor.
func (d *Decision) find(id0, id1 uint64) *record {
	id0, id1 = nonZero(id0), nonZero(id1)
	line := id0 & d.mask &^ (recordsPerLine - 1)
	first := id0 & (recordsPerLine - 1)
	for range len(d.records) / recordsPerLine {
		for i := range uint64(recordsPerLine) {
			r := &d.records[line|(first+i)&(recordsPerLine-1)]
			got := r.id0.Load()
			if got == 0 {
				if r.id0.CompareAndSwap(0, id0) {
					r.id1.Store(id1)
					return r
				}
				got = r.id0.Load()
			}
			if got == id0 && r.secondHash() == id1 {
				return r
			}
		}
		line = (line + recordsPerLine) & d.mask
	}
	return nil
}

// secondHash returns id1. It waits for a goroutine that is claiming the record.
func (r *record) secondHash() uint64 {
	for {
		if id1 := r.id1.Load(); id1 != 0 {
			return id1
		}
		runtime.Gosched()
	}
}

// Len is the number of records.
func (d *Decision) Len() int { return len(d.records) }

// Bytes is what the records occupy.
func (d *Decision) Bytes() int { return len(d.records) * 32 }

// Close does nothing. The benchmark needs it.
func (d *Decision) Close() {}
