package fleet

import (
	"math/bits"
	"time"
)

// Latencies has one bucket per nanosecond up to 2^subBits, and 2^subBits buckets for each power of two
// above. A bucket is at most 1/2^subBits of its value wide.
const (
	subBits = 5
	buckets = (64 - subBits + 1) << subBits
)

// Latencies counts durations to within 3 % in a fixed amount of memory. It is not safe for concurrent
// use: each goroutine needs its own, which Merge joins.
type Latencies struct {
	counts [buckets]uint32
	total  uint64
}

// Add counts one duration. A negative one counts as zero.
func (l *Latencies) Add(d time.Duration) {
	l.counts[bucketOf(uint64(max(d, 0)))]++
	l.total++
}

// Merge adds the durations of another Latencies.
func (l *Latencies) Merge(other *Latencies) {
	for i, n := range other.counts {
		l.counts[i] += n
	}
	l.total += other.total
}

// Reset removes all durations.
func (l *Latencies) Reset() { *l = Latencies{} }

// Quantile returns a duration that at least the share q of all durations does not exceed. It is the
// upper bound of a bucket, and 0 without durations.
func (l *Latencies) Quantile(q float64) time.Duration {
	seen := uint64(0)
	for i, n := range l.counts {
		seen += uint64(n)
		if n > 0 && float64(seen) >= q*float64(l.total) {
			return time.Duration(upperBound(i))
		}
	}
	return 0
}

// bucketOf returns the bucket that v is counted in.
func bucketOf(v uint64) int {
	shift := bits.Len64(v>>subBits) - 1 // so that v>>shift has subBits+1 bits
	if shift < 0 {
		return int(v)
	}
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// upperBound returns the largest value that is counted in bucket i.
func upperBound(i int) uint64 {
	shift := i>>subBits - 1
	if shift < 0 {
		return uint64(i)
	}
	return (uint64(i&(1<<subBits-1))|1<<subBits+1)<<shift - 1
}

// Counts returns how many durations are in each bucket, for AddCounts in another process.
func (l *Latencies) Counts() []uint32 { return append([]uint32(nil), l.counts[:]...) }

// AddCounts adds what Counts has returned.
func (l *Latencies) AddCounts(counts []uint32) {
	for i, n := range counts {
		l.counts[i] += n
		l.total += uint64(n)
	}
}
