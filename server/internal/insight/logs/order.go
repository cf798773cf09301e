package logs

import (
	"cmp"
	"slices"
)

// order gives records in the order of their times. Records wait in a bucket for each second, which leaves as a whole.
type order struct {
	span    int64    // how many seconds a record waits
	buckets []bucket // by their seconds
	left    int64    // no record before this second can be added
	leaving []Record
	next    int
	sorted  []entry // the order of leaving, if it is not sorted
	spare   [][]Record
	until   int64 // buckets before this second can leave
}

type bucket struct {
	second  int64
	records []Record
}

// entry is a record's time, and its index in a bucket.
type entry struct {
	at    int64
	index int32
}

const micros = 1_000_000

// floor returns the second of a time.
func floor(at int64) int64 {
	second := at / micros
	if at%micros < 0 {
		second--
	}
	return second
}

// push adds a record. It reports whether the record is late: its time becomes the earliest one that is possible.
func (o *order) push(rec *Record) (late bool) {
	second := floor(rec.At)
	if second < o.left {
		second, late = o.left, true
		rec.At = second * micros
	}
	i := len(o.buckets)
	for i > 0 && o.buckets[i-1].second > second {
		i--
	}
	if i == 0 || o.buckets[i-1].second != second {
		b := bucket{second: second}
		if n := len(o.spare); n > 0 {
			b.records, o.spare = o.spare[n-1], o.spare[:n-1]
		}
		o.buckets = slices.Insert(o.buckets, i, b)
		i++
	}
	records := &o.buckets[i-1].records
	*records = append(*records, *rec)
	return late
}

// release lets the records leave that are older than newest by the span. It reports whether there are some.
func (o *order) release(newest int64) bool {
	if second := floor(newest) - o.span; second > o.until {
		o.until = second
	}
	return o.next < len(o.leaving) || len(o.buckets) > 0 && o.buckets[0].second < o.until
}

// empty reports whether no record waits.
func (o *order) empty() bool { return o.next == len(o.leaving) && len(o.buckets) == 0 }

// mostSpare bounds the buckets that are kept for new seconds.
const mostSpare = 4

// pop gives the next record that can leave.
func (o *order) pop(rec *Record) bool {
	if o.next == len(o.leaving) {
		if len(o.buckets) == 0 || o.buckets[0].second >= o.until {
			return false
		}
		if cap(o.leaving) > 0 && len(o.spare) < mostSpare {
			clear(o.leaving) // the texts of the log can go
			o.spare = append(o.spare, o.leaving[:0])
		}
		o.leaving, o.next = o.buckets[0].records, 0
		o.left = o.buckets[0].second + 1
		o.buckets = slices.Delete(o.buckets, 0, 1)
		o.sort()
	}
	if len(o.sorted) > 0 {
		*rec = o.leaving[o.sorted[o.next].index]
	} else {
		*rec = o.leaving[o.next]
	}
	o.next++
	return true
}

// sort sorts entries for the records that leave. Records with the same time keep the order in which they came.
func (o *order) sort() {
	o.sorted = o.sorted[:0]
	if slices.IsSortedFunc(o.leaving, func(a, b Record) int { return cmp.Compare(a.At, b.At) }) {
		return
	}
	for i := range o.leaving {
		o.sorted = append(o.sorted, entry{o.leaving[i].At, int32(i)})
	}
	slices.SortFunc(o.sorted, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index))
	})
}
