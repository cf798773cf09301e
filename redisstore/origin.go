package redisstore

import "github.com/sluicehq/sluice/internal/algo"

// origin is how the numbers are read under which a state was kept. They are at the end of its
// text.
type origin struct {
	// skip reads what comes before the numbers.
	skip func(r *reader)
	// params returns the numbers of a limit, without the kind. It reports false if no limit
	// has them.
	params func(n []int64) (algo.Params, bool)
}

// skipInts returns a function that skips so many integers.
func skipInts(n int) func(r *reader) {
	return func(r *reader) { r.ints(n) }
}

// read reads the numbers at the end of a view, and the state under these numbers.
func (o *origin) read(view string, own *algo.Params, count int) (from algo.Params, state algo.State, words []uint64, err error) {
	in := reader{rest: view}
	o.skip(&in)
	begins := int64(0)
	kind := in.count()
	if own.Kind == algo.KindFixedWindow && kind != int64(own.Kind) {
		begins, kind = kind, in.count() // a window of a calendar
	}
	if kind != int64(own.Kind) {
		in.fail()
	}
	numbers := make([]int64, max(count-1, 0))
	for i := range numbers {
		numbers[i] = in.count()
	}
	if in.more() {
		in.fail()
	}
	if in.err != nil {
		return from, state, nil, in.err
	}
	from, ok := o.params(numbers)
	if !ok {
		return from, state, nil, errReply
	}
	if begins > 0 {
		from.Fixed = calendarOf(&from.Fixed, own, numbers, begins)
	}
	in.rest = view
	state, words = kinds[own.Kind].read(&in, &from)
	return from, state, words, in.err
}

// paced returns a pace with these numbers, if it can count so many units. The period of its rate
// is so many dens.
func paced(num, den, units, dens int64) (p algo.Pace, period int64, ok bool) {
	if num < 1 || den < 1 || units < 0 || units > algo.MaxUnits || dens > exact/den {
		return p, 0, false
	}
	p = algo.Pace{Num: uint64(num), Den: uint64(den)}
	return p, dens * den, p.Fits(uint64(units))
}

func bucketParams(n []int64) (algo.Params, bool) {
	pace, period, ok := paced(n[0], n[1], n[2]+n[3], n[4])
	if !ok || n[2] < 1 {
		return algo.Params{}, false
	}
	return algo.Params{Kind: algo.KindBucket, Capacity: n[2], Bucket: algo.NewBucket(pace, period, n[2], n[3])}, true
}

func leakyParams(n []int64) (algo.Params, bool) {
	pace, period, ok := paced(n[0], n[1], n[2]+1, n[4])
	if !ok {
		return algo.Params{}, false
	}
	return algo.Params{Kind: algo.KindLeaky, Capacity: n[2] + 1, Leaky: algo.NewLeakyBucket(pace, period, n[2], n[3])}, true
}

func warmParams(n []int64) (algo.Params, bool) {
	pace, _, ok := paced(n[0], n[1], n[2]+n[3], 0)
	if !ok || n[2] < 1 || n[4] < 1 || n[5] < 2 || n[5] > exact>>20 || !algo.WarmFits(pace, n[4], n[5]) {
		return algo.Params{}, false
	}
	return algo.Params{
		Kind: algo.KindWarmBucket, Capacity: n[2],
		Warm: algo.NewWarmBucket(pace, n[6], n[2], n[3], n[4], n[5]),
	}, true
}

func windowParams(n []int64) (algo.Params, bool) {
	return algo.Params{
		Kind: algo.KindFixedWindow, Capacity: n[0],
		Fixed: algo.FixedWindow{Count: n[0], Length: n[1], Opened: n[2] == formOpened, CountDenied: n[3] == 1},
	}, n[0] > 0 && n[1] > 0
}

// calendarOf returns the numbers of a window of a calendar: the limit's own one, or an unknown
// one under which the window has begun at a time.
func calendarOf(w *algo.FixedWindow, own *algo.Params, numbers []int64, begins int64) algo.FixedWindow {
	if c := own.Fixed.Calendar; c != nil && numbers[2] == formCalendar+calendarID(c) {
		w.Calendar = c
		return *w
	}
	return w.Begun(begins)
}

func cellsParams(n []int64) (algo.Params, bool) {
	return algo.Params{
		Kind: algo.KindSlidingWindow, Capacity: n[0],
		Cells: algo.SlidingWindow{Count: n[0], Length: n[1], Cells: n[2], CountDenied: n[3] == 1},
	}, n[0] > 0 && n[1] > 0 && n[2] > 0 && n[2] <= algo.MaxCells && n[1]%n[2] == 0
}

func counterParams(n []int64) (algo.Params, bool) {
	return algo.Params{
		Kind: algo.KindSlidingCounter, Capacity: n[0],
		Counter: algo.SlidingCounter{Count: n[0], Length: n[1], CountDenied: n[2] == 1},
	}, n[0] > 0 && n[0] <= algo.MaxCounterCount && n[1] >= algo.MinCounterLength
}
