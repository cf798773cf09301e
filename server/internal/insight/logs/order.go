package logs

import (
	"cmp"
	"slices"
	"time"
)

// order gives lines in the order of their requests' beginnings. They wait in a bucket for each second, which leaves as
// a whole.
type order struct {
	span    int64    // how many seconds a line waits
	buckets []bucket // by their seconds
	left    int64    // no line before this second can be added
	leaving []entry
	next    int
	spare   []entry // room for the next second
	until   int64   // buckets before this second can leave
}

type bucket struct {
	second  int64
	entries []entry
}

// entry is a line that waits. It has no pointer, so that the garbage collector need not look at it.
type entry struct {
	at          int64 // when the request began
	chunk, file int32
	start, size uint32 // in the chunk
	line        int32
}

const micros = 1_000_000

// floor returns the second of a time.
func floor(at int64) int64 { return time.UnixMicro(at).Unix() }

// push adds a line. It reports whether the line is late: its time becomes the earliest one that is possible.
func (o *order) push(e entry) (late bool) {
	second := floor(e.at)
	if second < o.left {
		second, late = o.left, true
		e.at = second * micros
	}
	i := len(o.buckets)
	for i > 0 && o.buckets[i-1].second > second {
		i--
	}
	if i == 0 || o.buckets[i-1].second != second {
		o.buckets = slices.Insert(o.buckets, i, bucket{second, o.spare[:0]})
		o.spare = nil
		i++
	}
	entries := &o.buckets[i-1].entries
	*entries = append(*entries, e)
	return late
}

// release lets the lines leave that are older than newest by the span. It reports whether there are some.
func (o *order) release(newest int64) bool {
	o.until = max(o.until, floor(newest)-o.span)
	return o.next < len(o.leaving) || len(o.buckets) > 0 && o.buckets[0].second < o.until
}

// empty reports whether no line waits.
func (o *order) empty() bool { return o.next == len(o.leaving) && len(o.buckets) == 0 }

// pop gives the next line that can leave, nil if there is none. It is valid until the next call.
func (o *order) pop() *entry {
	if o.next == len(o.leaving) {
		if len(o.buckets) == 0 || o.buckets[0].second >= o.until {
			return nil
		}
		o.spare = o.leaving
		o.leaving, o.next = o.buckets[0].entries, 0
		o.left = o.buckets[0].second + 1
		o.buckets = slices.Delete(o.buckets, 0, 1)
		slices.SortFunc(o.leaving, entry.compare)
	}
	o.next++
	return &o.leaving[o.next-1]
}

// compare compares times. Requests with the same time keep the order of their lines.
func (e entry) compare(f entry) int {
	if e.at != f.at {
		return cmp.Compare(e.at, f.at)
	}
	return cmp.Or(cmp.Compare(e.file, f.file), cmp.Compare(e.line, f.line))
}
