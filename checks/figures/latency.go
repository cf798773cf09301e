package figures

import (
	"math/bits"
	"time"
)

// The buckets of Latencies: one a nanosecond up to 2^subBits, then 2^subBits
// for each power of two, so that a bucket is at most 1/2^subBits of its value
// wide.
const (
	subBits = 5
	buckets = (64 - subBits + 1) << subBits
)

// Latencies counts durations, to within 3 %, in a fixed amount of memory. It is
// not safe for concurrent use: give each goroutine its own, and Merge.
type Latencies struct {
	counts [buckets]uint32
	total  uint64
}

// Add counts one duration; a negative one counts as none.
func (l *Latencies) Add(d time.Duration) {
	l.counts[bucketOf(uint64(max(d, 0)))]++
	l.total++
}

// Merge adds what another counted.
func (l *Latencies) Merge(other *Latencies) {
	for i, n := range other.counts {
		l.counts[i] += n
	}
	l.total += other.total
}

// Reset forgets all.
func (l *Latencies) Reset() { *l = Latencies{} }

// Quantile returns the least upper bound of a bucket that at least the share q
// of all durations do not exceed, and 0 if there are none.
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
