// Package oracle computes what each algorithm must decide, from the definition of the algorithm. It uses
// rational numbers and plain lists. It does not import the code that tests compare with it. No program
// uses it.
//
// A State is a value: its methods change nothing and return the state after them. Times are in
// microseconds, and no time is negative.
package oracle

import (
	"maps"
	"math/big"
	"slices"
)

// Request is one request to a limit.
type Request struct {
	Now  int64
	Cost int64
	// Floor is how many units must remain.
	Floor int64
	// MaxWait is the longest delay. Zero accepts the delay that the algorithm offers by itself. A
	// negative MaxWait accepts no delay.
	MaxWait int64
	// Member is the identity of a lease.
	Member uint64
	// Debit takes the cost although the request may be denied.
	Debit bool
	// Overdraw takes the whole cost if one unit can be taken.
	Overdraw bool
}

// most is the most units that a state counts.
const most = 1 << 53

// owes returns the units that a state counts after a debit of a request that was denied.
func (r Request) owes(used, most int64) int64 { return max(used, min(used+min(r.Cost, most), most)) }

// longest returns the longest delay of a request to an algorithm that offers none by itself.
func (r Request) longest() int64 { return max(r.MaxWait, 0) }

// need returns how many of count units must be left so that the request passes: one for an overdraw, if a state counts
// as much as the request takes beside count units.
func (r Request) need(count, counts int64) int64 {
	if r.Overdraw && r.Cost > 0 && (r.Cost <= count || r.Cost <= counts-count) {
		return 1
	}
	return r.Cost
}

// beyond reports whether a request is for more than count units above its floor. Such a request can never
// pass, and does not count as an attempt.
func (r Request) beyond(count, counts int64) bool {
	return r.Floor > count || r.need(count, counts) > count-r.Floor
}

// Reason says why a request was denied.
type Reason uint8

// The reasons.
const (
	None    Reason = iota // the request is allowed
	Limited               // the same request can pass later
	TooSoon               // the last request was less than the smallest interval ago
	Never                 // the request can never pass
)

// Result is the decision about one request.
type Result struct {
	Allowed    bool
	Reason     Reason
	Remaining  int64
	Delay      int64
	RetryAfter int64
	ResetAfter int64
}

// Newest is the At of a charge that nobody can name: its settlement gives units of the newest charges back.
const Newest = 1 << 53

// giveBack takes units out of the newest cells.
func giveBack(cells map[int64]int64, units int64) {
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(cells))) {
		give := min(units, cells[i])
		cells[i], units = cells[i]-give, units-give
	}
}

// Charge is what an allowed request took.
type Charge struct {
	Cost, Floor int64
	// At is when it was charged. It is later than the request if the clock went back before.
	At     int64
	Member uint64
	// Act is when it acts, before rounding.
	Act *big.Rat
	// End is when the bucket is empty after the charge, or when the next permit is free.
	End *big.Rat
}

// State is the state of one key under one limit. It defines whether and when a request passes. Decide
// computes the rest of a Result from that.
type State interface {
	// Allows decides a request: whether it passes, its delay, and the reason if it does not pass.
	Allows(r Request) (allowed bool, delay int64, reason Reason)
	// Take returns the state after a request, and the charge if the request was allowed.
	Take(r Request, allowed bool) (State, Charge)
	// Remaining returns how many units a request like r could take.
	Remaining(r Request) int64
	// Fresh reports whether the state equals the state of a new key.
	Fresh(now int64) bool
	// Settle replaces the cost of a charge.
	Settle(now int64, c Charge, actual int64) State
	// Cancel gives a charge back.
	Cancel(now int64, c Charge) State
	// Equal reports whether another state of the same limit is the same.
	Equal(s State) bool
}

// Decide decides a request. RetryAfter is the first time at which the same request would pass, and
// ResetAfter the first at which the state is fresh. The search for them begins at the times of guess: a
// right guess makes the search short. Tests pass the result under test as the guess.
func Decide(s State, r Request, guess Result) (Result, Charge, State) {
	allowed, delay, reason := s.Allows(r)
	after, c := s.Take(r, allowed)
	return Result{
		Allowed: allowed, Delay: delay, Reason: reason,
		Remaining:  after.Remaining(r),
		ResetAfter: resetAfter(after, r.Now, guess.ResetAfter),
		RetryAfter: retryAfter(after, r, allowed, reason, guess.RetryAfter),
	}, c, after
}

// Peek decides a request and takes nothing. Remaining is what could be taken at most, and ResetAfter is of the
// state as it is.
func Peek(s State, r Request, guess Result) Result {
	d, _, _ := Decide(s, r, guess)
	if d.Allowed && r.Cost > 0 {
		d.Remaining, d.ResetAfter = free(s, r), resetAfter(untaken(s, r), r.Now, guess.ResetAfter)
	}
	return d
}

// Fits reports whether Decide, or Peek for a peek, returns this result. It also returns the state after
// the request. It is faster than Decide and Peek.
func Fits(s State, r Request, got Result, peek bool) (ok bool, after State) {
	allowed, delay, reason := s.Allows(r)
	if got.Allowed != allowed || got.Delay != delay || got.Reason != reason {
		return false, s
	}
	after, _ = s.Take(r, allowed)
	left, shown := after.Remaining(r), after
	if peek && allowed && r.Cost > 0 {
		left, shown = free(s, r), untaken(s, r)
	}
	ok = got.Remaining == left && got.ResetAfter == resetAfter(shown, r.Now, got.ResetAfter) &&
		got.RetryAfter == retryAfter(after, r, allowed, reason, got.RetryAfter)
	if peek {
		after = s
	}
	return ok, after
}

// free returns what a request could take at most.
func free(s State, r Request) int64 {
	r.Cost, r.Member = 0, 0
	return s.Remaining(r)
}

// untaken returns the state after a request for nothing.
func untaken(s State, r Request) State {
	r.Cost, r.Member = 0, 0
	after, _ := s.Take(r, true)
	return after
}

func resetAfter(s State, now, guess int64) int64 {
	return first(guess, func(t int64) bool { return s.Fresh(now + t) })
}

func retryAfter(s State, r Request, allowed bool, reason Reason, guess int64) int64 {
	if allowed || reason == Never {
		return 0
	}
	return first(guess, func(t int64) bool {
		later := r
		later.Now += t
		ok, _, _ := s.Allows(later)
		return ok
	})
}

// first returns the first time at which f holds, or -1 if there is none. Once f holds, it must hold at
// all later times. The search begins at the guess.
func first(guess int64, f func(t int64) bool) int64 {
	guess = max(guess, 0)
	// f does not hold at low, and holds at high.
	low, high := int64(-1), guess
	if f(guess) {
		for step := int64(1); high-step >= 0; step *= 2 {
			if !f(high - step) {
				low = high - step
				break
			}
			high -= step
		}
	} else {
		for step := int64(1); ; step *= 2 {
			if low, high = high, high+step; high > 1<<60 {
				return -1
			}
			if f(high) {
				break
			}
		}
	}
	for low+1 < high {
		if mid := low + (high-low)/2; f(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// largest returns the largest cost up to most that passes.
func largest(most int64, passes func(cost int64) bool) int64 {
	low, high := int64(0), most+1
	for low+1 < high {
		if mid := low + (high-low)/2; passes(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// Rat returns a fraction.
func Rat(num, den int64) *big.Rat { return big.NewRat(num, den) }

// Up rounds a fraction up.
func Up(r *big.Rat) int64 { return ceil(r).Int64() }

func ceil(r *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// Down rounds a fraction down.
func Down(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func whole(n int64) *big.Rat     { return new(big.Rat).SetInt64(n) }
func add(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }
func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func mul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func quo(a, b *big.Rat) *big.Rat { return new(big.Rat).Quo(a, b) }
func less(a, b *big.Rat) bool    { return a.Cmp(b) < 0 }

func smaller(a, b *big.Rat) *big.Rat {
	if less(b, a) {
		return b
	}
	return a
}

func larger(a, b *big.Rat) *big.Rat {
	if less(a, b) {
		return b
	}
	return a
}
