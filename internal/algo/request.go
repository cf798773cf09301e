package algo

// Reason says why a request was denied.
type Reason uint8

// The reasons.
const (
	// None: the request passes.
	None Reason = iota
	// Limited: fewer units are left than the cost; RetryAfter says when there will be enough.
	Limited
	// TooSoon: less than the minimum interval has passed since the last request.
	TooSoon
	// Never: the cost is more than the limit can ever give.
	Never
)

// Request is what an algorithm decides.
type Request struct {
	// Now is the time of the request, in microseconds since the epoch, not negative.
	Now int64
	// Cost is how many units are taken; 0 passes unless more units are used than there are.
	Cost int64
	// Floor is how many units must remain after the take.
	Floor int64
	// MaxWait is the longest acceptable delay, in microseconds. Zero means the delay that the
	// algorithm itself offers: none for a token bucket, the queue of a leaky bucket or of a
	// concurrency limit. Negative means no delay.
	MaxWait int64
	// Member identifies the lease of a concurrency limit; it is unused elsewhere.
	Member uint64
	// Debit takes the cost even if the request is denied: what is missing becomes debt. The result
	// is of the state after that. Leaky buckets and concurrency limits cannot owe units, and ignore it.
	Debit bool
	// Overdraw takes the whole cost if one unit can be taken: what is missing becomes debt. Leaky buckets and
	// concurrency limits ignore it.
	Overdraw bool
}

// Result is what an algorithm decides. Times are in microseconds.
type Result struct {
	Allowed bool
	Reason  Reason
	// Remaining is how many units the request can still take, above its floor.
	Remaining int64
	// Delay is how long an allowed request must wait before it acts.
	Delay int64
	// RetryAfter is the time from the request to the first moment at which the same request would
	// be allowed, if no other request comes. It is zero if the request is allowed, and if it
	// never can be.
	RetryAfter int64
	// ResetAfter is the time from the request until the state equals a fresh one.
	ResetAfter int64
	// At and Over go into the Charge that ends this reservation.
	At   int64
	Over uint64
}

// Newest is the At of a charge that nobody can name. Settle gives as many units of the newest charges back as
// still count, and charges no more. It is later than any time of a store.
const Newest = 1 << 53

// Charge identifies what an allowed request took, to settle or cancel it.
type Charge struct {
	Cost, Floor int64
	// At and Over are copied from the Result.
	At   int64
	Over uint64
	// Member is copied from the Request.
	Member uint64
}

// keeps returns how many units must remain after the take: none after a request without cost.
func (r *Request) keeps() int64 {
	if r.Cost == 0 {
		return 0
	}
	return r.Floor
}

// need returns how many of count units must be left for the request: its cost, or one if it is an overdraw. An overdraw of
// more units than a state can count, which are most, needs all of them: so it never passes, and what is charged is what it
// gives back.
func (r *Request) need(count, most int64) int64 {
	if r.Overdraw && r.Cost <= max(count, most-count) {
		return min(r.Cost, 1)
	}
	return r.Cost
}

// room returns how many of count units may be used before the request, so that it passes; negative if
// it never can. A state can count most units.
func (r *Request) room(count, most int64) int64 {
	return count - min(r.keeps(), count+1) - min(r.need(count, most), count+1)
}

// left returns how many of count units a request can still take, if floor units must remain.
func left(count, floor int64, used uint64) int64 {
	return max(0, count-min(floor, count)-int64(used))
}

// State is the state of an algorithm that needs no more than two words. T is a time or contains
// one; each algorithm defines V.
type State struct {
	T int64
	V uint64
}

// elapsed compares the time of a request with the time at which a state was last charged. It
// returns the time that has passed, the time from which to compute, and whether the clock was set
// back by more than a period.
func elapsed(last, now, period int64) (passed, at int64, setBack bool) {
	if now >= last {
		return now - last, now, false
	}
	if last-now <= period {
		return 0, last, false
	}
	return 0, now, true
}
