package fleet

import (
	"math/rand"
	"slices"
	"testing"
	"time"
)

// TestBucketsAreWithoutGaps checks that every bucket begins after the end of the bucket before it.
func TestBucketsAreWithoutGaps(t *testing.T) {
	for i := range buckets {
		last := upperBound(i)
		if got := bucketOf(last); got != i {
			t.Fatalf("%d is counted in bucket %d, want %d", last, got, i)
		}
		if i+1 < buckets && bucketOf(last+1) != i+1 {
			t.Fatalf("%d is counted in bucket %d, want %d", last+1, bucketOf(last+1), i+1)
		}
	}
}

// Quantiles of parts that were added are the quantiles of the whole, within a bucket.
func TestQuantilesOfAddedParts(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var whole, part Latencies
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%2 == 0 {
			whole.Add(d)
		} else {
			part.Add(d)
		}
	}
	whole.Merge(&part)
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		exact := all[int(q*float64(len(all)))-1]
		got := whole.Quantile(q)
		if got < exact || float64(got) > float64(exact)*(1+1.0/32)+1 {
			t.Errorf("quantile %v: got %v, exactly %v", q, got, exact)
		}
	}
	whole.Reset()
	if got := whole.Quantile(0.5); got != 0 {
		t.Errorf("the median without durations is %v", got)
	}
}
