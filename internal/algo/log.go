package algo

// SlidingLog remembers when each unit was taken: it is exact over every interval. No interval of
// Length holds more than Count units, and no two requests are less than MinInterval apart.
//
// With CountDenied it logs a denied attempt too, so that a client that keeps trying stays denied.
//
// Its state is a ring of entries in a slice that its owner grows. A header of two words precedes
// the entries. The first word holds the index of the first entry and the number of entries, the
// second word the units logged before the first entry. Each entry holds a time and the units
// logged up to and including it.
type SlidingLog struct {
	Count       int64
	Length      int64 // microseconds
	MinInterval int64 // microseconds, no longer than Length
	CountDenied bool
}

// maxLogCost bounds the cost of an entry.
const maxLogCost = 2 * MaxLogCount

// MaxLogCount bounds the Count of a SlidingLog: its state has an entry for each request.
const MaxLogCount = 1 << 16

const (
	logHead = iota
	logBase
	logEntries
)

// Words returns the size of a SlidingLog's state that has room for entries.
func (l *SlidingLog) Words(entries int) int { return logEntries + 2*entries }

// Entries returns the most entries for which a state ever needs room.
func (l *SlidingLog) Entries() int { return int(l.Count) + 1 }

// logRing reads and writes a state's ring.
type logRing struct {
	w         []uint64
	head, len int
}

func openLog(w []uint64) logRing {
	return logRing{w, int(w[logHead] >> 32), int(w[logHead] & 0xffffffff)}
}

func (r *logRing) cap() int { return (len(r.w) - logEntries) / 2 }

func (r *logRing) entry(i int) []uint64 {
	p := r.head + i
	if c := r.cap(); p >= c {
		p -= c
	}
	return r.w[logEntries+2*p:][:2]
}

func (r *logRing) time(i int) int64 { return int64(r.entry(i)[0]) }

// upTo returns the units logged before entry i.
func (r *logRing) upTo(i int) uint64 {
	if i == 0 {
		return r.w[logBase]
	}
	return r.entry(i - 1)[1]
}

func (r *logRing) total() uint64 { return r.upTo(r.len) }

// search returns the index of the first entry for which after is true. after must be false before
// that entry, and true from that entry on.
func (r *logRing) search(after func(i int) bool) int {
	lo, hi := 0, r.len
	for lo < hi {
		if mid := (lo + hi) / 2; after(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// drop removes the first n entries.
func (r *logRing) drop(n int) {
	if n == 0 {
		return
	}
	r.w[logBase] = r.upTo(n)
	r.head, r.len = (r.head+n)%r.cap(), r.len-n
	r.save()
}

func (r *logRing) push(at int64, cost uint64) {
	upTo := r.total() + cost
	r.len++
	e := r.entry(r.len - 1)
	e[0], e[1] = uint64(at), upTo
	r.save()
}

// giveBack takes units out of the entries after the first ones, from the newest one on.
func (r *logRing) giveBack(first int, units uint64) {
	for units > 0 && r.len > first {
		n := r.total() - r.upTo(r.len-1)
		if n > units {
			r.entry(r.len - 1)[1] -= units
			break
		}
		units -= n
		r.len--
	}
	r.save()
}

func (r *logRing) save() { r.w[logHead] = uint64(r.head)<<32 | uint64(r.len) }

// settled returns the first entry that counts, the time from which to compute, and whether the
// clock was set back.
func (l *SlidingLog) settled(r *logRing, now int64) (first int, at int64, setBack bool) {
	at = now
	if r.len > 0 {
		_, at, setBack = elapsed(r.time(r.len-1), now, l.Length)
	}
	if setBack {
		return 0, at, true
	}
	return r.search(func(i int) bool { return r.time(i) > at-l.Length }), at, false
}

// Full reports whether the state has no room for another entry at this time. Its owner then moves
// it to a larger slice, unless it already has room for Entries.
func (l *SlidingLog) Full(w []uint64, now int64) bool {
	r := openLog(w)
	first, _, _ := l.settled(&r, now)
	return r.len-first >= r.cap()
}

// Move copies a state into a larger slice of zeros.
func (l *SlidingLog) Move(dst, src []uint64) {
	from, to := openLog(src), openLog(dst)
	dst[logBase] = from.w[logBase]
	for i := range from.len {
		to.len++
		copy(to.entry(i), from.entry(i))
	}
	to.save()
}

// Decide decides one request. With commit it updates the state; a denial changes it only with
// CountDenied, or for a debit. Without commit it writes nothing.
func (l *SlidingLog) Decide(w []uint64, req Request, commit bool) Result {
	r := openLog(w)
	first, at, setBack := l.settled(&r, req.Now)
	if setBack {
		used := max(r.total()-r.upTo(0), uint64(l.Count))
		if !commit { // work on a copy
			var words [logEntries + 2*1]uint64
			r = openLog(words[:])
		}
		clear(r.w)
		r.head, r.len, first = 0, 0, 0
		r.push(at, used)
	}
	used := r.total() - r.upTo(first)
	res := Result{Remaining: left(l.Count, req.Floor, used)}
	if r.len > first {
		res.ResetAfter = r.time(r.len-1) + l.Length - req.Now
	}
	last := int64(-1)
	if r.len > first {
		last = r.time(r.len - 1)
	}
	room, counts := req.room(l.Count, maxLogCost), l.CountDenied
	switch {
	case room < 0:
		res.Reason, counts = Never, false
	case int64(used) > room:
		res.Reason = Limited
	case req.Cost == 0:
		res.Allowed, res.At = true, at
		return res
	case last >= 0 && at-last < l.MinInterval:
		res.Reason = TooSoon
	default:
		res.Allowed, res.At = true, at
		res.Remaining = max(0, res.Remaining-req.Cost)
		res.ResetAfter = at + l.Length - req.Now
		if commit {
			r.drop(first)
			r.push(at, uint64(req.Cost))
		}
		return res
	}
	retry, cost := int64(0), uint64(min(req.Cost, l.Count+1)) // more units make no difference
	counts = (counts || req.Debit) && cost > 0
	if counts {
		// Decide as if the log already held the cost.
		used += cost
		last = at
		res.Remaining = left(l.Count, req.Floor, used)
		res.ResetAfter = at + l.Length - req.Now
		retry = at + l.Length
	}
	switch {
	case res.Reason == Never:
	case int64(used) > room:
		gone := r.upTo(first) + used - uint64(room)
		if i := r.search(func(i int) bool { return r.entry(i)[1] >= gone }); i < r.len {
			retry = r.time(i) + l.Length
		}
	default:
		retry = 0
	}
	if req.Cost > 0 { // a request that takes nothing need not keep the interval
		retry = max(retry, last+l.MinInterval)
	}
	if res.Reason != Never {
		res.RetryAfter = retry - req.Now
	}
	if counts && commit {
		r.drop(first)
		// From here on only the newest Count units decide.
		r.drop(r.search(func(i int) bool { return r.total()-r.entry(i)[1] < uint64(l.Count) }))
		r.push(at, cost)
	}
	return res
}

// Fresh reports whether no entry counts any more.
func (l *SlidingLog) Fresh(w []uint64, now int64) bool {
	r := openLog(w)
	return r.len == 0 || r.time(r.len-1) <= now-l.Length
}

// Cancel gives a charge back at the moment at which it was made. Later it gives back nothing.
func (l *SlidingLog) Cancel(w []uint64, now int64, c Charge) {
	if c.Cost > 0 && now <= c.At {
		l.Settle(w, now, c, 0)
	}
}

// Settle replaces the cost of a charge by the actual cost, while it counts. With an actual cost of
// 0 it removes the entry. A charge that cost nothing has no entry: it gets an entry, or adds to
// the next one.
func (l *SlidingLog) Settle(w []uint64, now int64, c Charge, actual int64) {
	r := openLog(w)
	first, at, setBack := l.settled(&r, now)
	if setBack {
		return
	}
	if c.At == Newest {
		r.giveBack(first, uint64(c.Cost-min(actual, c.Cost)))
		return
	}
	i := r.search(func(i int) bool { return r.time(i) >= c.At })
	for i < r.len && r.time(i) == c.At && r.entry(i)[1]-r.upTo(i) != uint64(c.Cost) {
		i++
	}
	if i >= r.len || r.time(i) != c.At {
		l.charge(&r, first, at, c, actual)
		return
	}
	if i < first {
		return
	}
	more := uint64(min(actual, maxLogCost)) - uint64(c.Cost) // wraps around for a surplus
	if actual > 0 {
		for ; i < r.len; i++ {
			r.entry(i)[1] += more
		}
		return
	}
	for ; i+1 < r.len; i++ {
		next := r.entry(i + 1)
		e := r.entry(i)
		e[0], e[1] = next[0], next[1]+more
	}
	r.len--
	r.save()
}

// charge logs the actual cost of a charge that has no entry.
func (l *SlidingLog) charge(r *logRing, first int, at int64, c Charge, actual int64) {
	if actual <= c.Cost || c.At <= at-l.Length || c.At-at > l.Length {
		return
	}
	more := uint64(min(actual-c.Cost, maxLogCost))
	r.drop(first)
	i := r.search(func(i int) bool { return r.time(i) >= c.At })
	if i == r.len {
		if r.len < min(r.cap(), l.Entries()) {
			r.push(c.At, more)
			return
		}
		i = r.len - 1
		r.entry(i)[0] = uint64(c.At) // there is no room: the last entry counts for longer
	}
	more = min(more, maxLogCost-min(r.entry(i)[1]-r.upTo(i), maxLogCost))
	for ; i < r.len; i++ {
		r.entry(i)[1] += more
	}
}

// setBack reports whether the clock was set back after the state was charged.
func (l *SlidingLog) setBack(w []uint64, now int64) bool {
	r := openLog(w)
	_, _, setBack := l.settled(&r, now)
	return setBack
}

// holds reports whether a denied attempt under these numbers, which drops the units that do not
// decide under them, leaves all units that decide under other numbers.
func (l *SlidingLog) holds(from *SlidingLog) bool {
	return l.Length >= from.Length && l.Count >= from.Count
}

// carried returns the units of another limit's log in the terms of this one. The log is not empty.
func (l *SlidingLog) carried(r *logRing) carry {
	first := r.time(r.len-1) + l.Length
	return carry{units: r.total() - r.upTo(0), count: uint64(l.Count), first: first, step: l.Length}
}

// Convert writes into w, a slice of zeros, the state that from's state becomes under these
// numbers: the entries that count stay. If the period is shorter, the units that are left become
// one entry, see carry: the latest one, or an entry of now once that one does not count.
func (l *SlidingLog) Convert(from *SlidingLog, w, old []uint64, now int64) {
	src, dst := openLog(old), openLog(w)
	first, at, setBack := from.settled(&src, now)
	switch {
	case setBack:
		dst.push(at, max(src.total()-src.upTo(0), uint64(l.Count)))
	case l.Length >= from.Length:
		for i := max(first, src.len-dst.cap()); i < src.len; i++ {
			dst.push(src.time(i), src.entry(i)[1]-src.upTo(i))
		}
	case first < src.len:
		used := min(src.total()-src.upTo(first), l.carried(&src).left(at))
		// The entry is not so late that the next request comes too soon after it.
		if latest := src.time(src.len - 1); used > 0 {
			dst.push(max(latest, at-min(l.MinInterval, l.Length-1)), used)
		}
	}
}

// await corrects the numbers of a result that leaves from's state as it is.
func (l *SlidingLog) await(from *SlidingLog, w []uint64, req *Request, res *Result) {
	if l.Length == from.Length && !l.CountDenied {
		return
	}
	r := openLog(w)
	first, at, _ := from.settled(&r, req.Now)
	if first == r.len {
		return
	}
	carried := l.carried(&r)
	counted := r.total() - r.upTo(first)
	used := min(counted, carried.left(at))
	if used == 0 {
		res.ResetAfter = 0
		return
	}
	// until returns when at most room units are left.
	until := func(room int64) int64 {
		if used <= uint64(room) {
			return req.Now
		}
		gone := r.total() - uint64(room)
		i := r.search(func(i int) bool { return r.entry(i)[1] >= gone })
		return min(carried.until(uint64(room)), r.time(i)+from.Length)
	}
	reset := until(0)
	retry := until(max(0, l.Count-req.need(l.Count, maxLogCost)-req.keeps()))
	if req.Cost > 0 {
		if l.MinInterval >= l.Length { // the last unit must have left
			retry = reset
		}
		retry = max(retry, r.time(r.len-1)+min(l.MinInterval, from.Length))
	}
	l.Awaited(req, res, retry, reset, used)
}

// Awaited corrects the numbers of a result that leaves a state under other numbers as it is. The
// request is admitted at until, if nothing is written until then; nothing is left of the used
// units at reset.
func (l *SlidingLog) Awaited(req *Request, res *Result, until, reset int64, used uint64) {
	res.ResetAfter = reset - req.Now
	if res.Allowed || res.Reason == Never {
		return
	}
	res.RetryAfter = until - req.Now
	if req.Cost > 0 {
		res.Remaining = left(l.Count, req.Floor, used)
	}
}
