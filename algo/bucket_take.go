package algo

import "math/bits"

// Take is Decide for the plainest of questions: a cost that can fit, no floor, no
// wait, and no time that goes back. It returns the state to keep and 0, or, if the
// cost is not there, the state as of now and the ticks that are short. plain is
// false if Decide is to be asked.
//
// All of it passes in registers.
func (b *Bucket) Take(s State, now, cost int64) (next State, short uint64, plain bool) {
	missing, passed := s.V, now-s.T
	// The highest bit of one of both: time that goes back, or a bucket that has lent.
	if passed|int64(missing) < 0 || cost < 1 || cost > b.Burst {
		return s, 0, false
	}
	if hi, lo := bits.Mul64(uint64(passed), b.Num); hi != 0 || lo >= missing {
		missing = 0
	} else {
		missing -= lo
	}
	after := missing + uint64(cost)*b.Den
	if after > b.full {
		return State{now, missing}, after - b.full, true
	}
	return State{now, after}, 0, true
}

// Held returns the whole tokens in a bucket, for a state that Take has just returned.
func (b *Bucket) Held(s State) int64 { return b.remaining(s.V, b.full) }

// Full returns the microseconds until a bucket is full, for a state that Take has
// just returned.
func (b *Bucket) Full(s State) int64 { return b.wait(s.V) }

// Wait returns the microseconds until ticks that are short are there.
func (b *Bucket) Wait(short uint64) int64 { return b.wait(short) }
