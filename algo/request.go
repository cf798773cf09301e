package algo

// Reason says why a question was answered as it was.
type Reason uint8

// The reasons, from the most welcome one.
const (
	// None: the request passes.
	None Reason = iota
	// Limited: the budget does not hold the cost now; RetryAfter says when it will.
	Limited
	// TooSoon: the last request was less than the least interval ago.
	TooSoon
	// Never: the cost is more than the limit could ever give.
	Never
)

// Request is one question to an algorithm.
type Request struct {
	// Now is the time of the question, in microseconds since the epoch, not negative.
	Now int64
	// Cost is how many units are asked for; 0 passes unless the state is in debt.
	Cost int64
	// Floor is how many units must remain after the take.
	Floor int64
	// MaxWait is the longest delay, in microseconds, that is acceptable. Zero
	// means what the algorithm itself offers: none for a token bucket, the
	// queue of a leaky bucket or of a concurrency limit. Negative means none.
	MaxWait int64
	// Member identifies the lease of a concurrency limit; unused elsewhere.
	Member uint64
}

// Result is what an algorithm answers. Times are in microseconds.
type Result struct {
	Allowed bool
	Reason  Reason
	// Remaining is how many units the asker can still take, after its floor.
	Remaining int64
	// Delay is how long an allowed request must wait before it acts.
	Delay int64
	// RetryAfter is the time from the question to the first moment at which the
	// same question would be allowed, if nobody else asks. Zero when the
	// request is allowed, and when it never will be.
	RetryAfter int64
	// ResetAfter is the time from the question until the state equals a fresh one.
	ResetAfter int64
	// At and Over go into the Charge that ends this reservation.
	At   int64
	Over uint64
}

// Charge identifies what an allowed question took, to settle or cancel it.
type Charge struct {
	Cost, Floor int64
	// At and Over are those of the Result.
	At   int64
	Over uint64
	// Member is that of the Request.
	Member uint64
}

// left returns how many of count units an asker can still take who leaves floor.
func left(count, floor int64, used uint64) int64 {
	return max(0, count-min(floor, count)-int64(used))
}

// State is the state of an algorithm that needs no more than two words. T is a
// time or holds one; what V means is the algorithm's own affair.
type State struct {
	T int64
	V uint64
}

// elapsed compares the time of a question with the time a state was last
// charged at. It returns the time that has passed, the time to reckon from, and
// whether the clock was set back by more than a period.
func elapsed(last, now, period int64) (passed, at int64, setBack bool) {
	if now >= last {
		return now - last, now, false
	}
	if last-now <= period {
		return 0, last, false
	}
	return 0, now, true
}
