package redisstore

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// windows are limits of fixed windows, sliding windows and sliding counters.
func windows() []*sluice.Limit {
	var ls []*sluice.Limit
	for _, a := range []sluice.Algorithm{
		sluice.FixedWindow{Rate: sluice.PerSecond(5)},
		sluice.FixedWindow{Rate: sluice.PerSecond(5), Opened: true},
		sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarMonth},
		sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 4},
		sluice.SlidingWindow{Rate: sluice.Per(1<<53, 100*365*24*time.Hour), Cells: 256},
		sluice.SlidingCounter{Rate: sluice.PerSecond(5)},
		sluice.SlidingCounter{Rate: sluice.Per(algo.MaxCounterCount, 100*365*24*time.Hour)},
	} {
		ls = append(ls, sluice.MustLimit("", a))
	}
	return ls
}

// viewOf writes a view of numbers, of which one may be a list.
func viewOf(numbers ...any) string {
	var b []byte
	for _, n := range numbers {
		switch n := n.(type) {
		case int:
			b = appendInt(b, int64(n))
		case int64:
			b = appendInt(b, n)
		case []int:
			b = append(b, 0x90|byte(len(n)))
			for _, u := range n {
				b = appendInt(b, int64(u))
			}
		}
	}
	return string(b)
}

// TestWindowViews reads states as the scripts write them.
func TestWindowViews(t *testing.T) {
	const now int64 = 1_800_000_000_000_000
	ls := windows()
	fixed, day, counter := ls[0].Params().Fixed, ls[2].Params().Fixed, ls[5].Params().Counter
	for _, row := range []struct {
		limit *sluice.Limit
		view  string
		state algo.State
		words []uint64
	}{
		{ls[0], "", algo.State{}, nil},
		{ls[0], viewOf(4, now, 3, now-7, 4, 5, 1_000_000, 0), fixed.Restore(now, 3, now-7), nil},
		{ls[2], viewOf(4, now, 3, now-7, now-10, 4, 5, 1_000_000, 77), day.Restore(now, 3, now-7), nil},
		{ls[3], "", algo.State{}, make([]uint64, 8)},
		{ls[3], viewOf(5, 22, now, []int{1, 0, 2}, 5, 5, 1_000_000, 4), algo.State{}, []uint64{22, 3, uint64(now), 2, 0, 1, 0, 0}},
		{ls[5], "", algo.State{}, nil},
		{ls[5], viewOf(6, 22, 4, int64(1<<40-1), 22_000_777, 6, 5, 1_000_000), counter.Restore(22, 4, 1<<40-1, 22_000_777), nil},
	} {
		in := reader{rest: row.view}
		state, words := kinds[row.limit.Params().Kind].read(&in, row.limit.Params())
		if in.err != nil || state != row.state || !slices.Equal(words, row.words) {
			t.Errorf("%q of %v is read as %v, %v, %v", row.view, row.limit, state, words, in.err)
		}
	}
}

// TestWindowViewsOfOthers are refused.
func TestWindowViewsOfOthers(t *testing.T) {
	ls := windows()
	for _, row := range []struct {
		limit *sluice.Limit
		view  string
	}{
		{ls[0], viewOf(5, 22, 9, []int{1})},                // another algorithm
		{ls[0], viewOf(4, int64(1<<53+1), 3, 9)},           // not exact in a script
		{ls[0], viewOf(4, 17, -1, 9)},                      // less than nothing
		{ls[0], viewOf(4, 17)},                             // cut off
		{ls[3], viewOf(5, 22, 9, []int{1, 1, 1, 1, 1, 1})}, // more cells than there are
		{ls[3], viewOf(5, 1, 9, []int{1, 1, 1})},           // before the epoch
		{ls[3], viewOf(5, int64(1<<53), 9, []int{1})},      // beyond all time
		{ls[3], viewOf(5, 22, 9, 1)},                       // no list
		{ls[3], viewOf(5, 22, 9) + "\xdd\xff\xff\xff\xff"}, // more than an int of 32 bits has room for
		{ls[5], viewOf(6, int64(1<<53), 1, 1, 9)},          // beyond all time
		{ls[5], viewOf(6, 22, int64(1<<40), 1, 9)},         // more than a window counts
		{ls[5], viewOf(6, 22, 1, int64(1<<40), 9)},
	} {
		in := reader{rest: row.view}
		if kinds[row.limit.Params().Kind].read(&in, row.limit.Params()); in.err == nil {
			t.Errorf("%q is read as a view of %v", row.view, row.limit)
		}
	}
}

// FuzzWindowViews: whatever a server sends as a view is refused or answered from.
func FuzzWindowViews(f *testing.F) {
	f.Add(viewOf(4, int64(1_800_000_000_000_000), 3, int64(1_799_999_999_999_999), 4, 5, 1_000_000, 0, 0), int64(1_800_000_000_000_000), int64(1))
	f.Add(viewOf(5, 22, 5_400_000, []int{1, 0, 2}, 5, 5, 1_000_000, 4, 0), int64(5_500_000), int64(1))
	f.Add(viewOf(6, 1_800_000_000, 4, 1, int64(1_800_000_000_000_000), 6, 5, 1_000_000, 0), int64(1_800_000_000_000_000), int64(1))
	f.Fuzz(func(t *testing.T, view string, now, cost int64) {
		for _, l := range windows() {
			known := new(limits).get(l)
			d, err := known.decision(view, &algo.Request{Now: now & (exact - 1), Cost: max(0, cost)}, false)
			if d.Remaining < 0 || d.Remaining > l.Capacity() || err != nil && d != (sluice.Decision{}) {
				t.Errorf("%v answers %+v, %v from %q", l, d, err, view)
			}
		}
	})
}
