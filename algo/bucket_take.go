package algo

import "math/bits"

// Take is Decide for the plainest of questions and answers: a cost, no time that goes
// back, no floor, no wait, and the cost is there. It reports false if Decide is
// to be asked, and is small enough for registers.
func (b *Bucket) Take(s State, now, cost int64) (next State, ok bool) {
	missing := s.V
	passed := now - s.T
	// The highest bit of one of both: time that goes back, or a bucket that has lent.
	if passed|int64(missing) < 0 || cost < 1 || cost > b.Burst {
		return s, false
	}
	if hi, lo := bits.Mul64(uint64(passed), b.Num); hi != 0 || lo >= missing {
		missing = 0
	} else {
		missing -= lo
	}
	missing += uint64(cost) * b.Den
	return State{now, missing}, missing <= b.full
}

// Held returns the whole tokens in a bucket that has just been charged and owes
// nothing.
func (b *Bucket) Held(s State) int64 { return int64((b.full - s.V) / b.Den) }

// Full returns the microseconds until a bucket that has just been charged is full.
func (b *Bucket) Full(s State) int64 { return b.wait(s.V) }
