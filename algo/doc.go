// Package algo holds the rate limiting algorithms as pure arithmetic: from a
// state, the numbers of a limit, the time and a cost they compute the next
// state and an answer. Nothing here reads a clock, takes a lock or allocates.
//
// All arithmetic is on integers and exact. Time is in microseconds since the
// Unix epoch. A rate of n units per P microseconds is reduced by its greatest
// common divisor, and amounts are counted in ticks: one unit is P ticks, one
// microsecond refills n ticks. No fraction of a unit is ever lost, whatever
// the times and costs of the questions.
//
// The zero state of every algorithm is a fresh one: the state of a key that
// has never been seen. A state that time has made equal to a fresh one may be
// forgotten, and no other. It is told from a fresh one by no later question, only by
// one whose time goes back to before it was forgotten.
//
// # Time that goes back
//
// Every state remembers the latest time it was charged at; those of windows and
// cells, the latest window or cell. A question asked at an earlier time is answered as
// of that latest time, or of the beginning of that window: nothing is refilled twice,
// and the wait it is told includes the difference. When the difference is more than
// one period of the limit, the clock is taken to have been set back: the state is moved
// to the new time with its whole budget spent, so that the change mints nothing. So
// nobody is locked out for more than a period beyond what the limit asks for anyway.
// Leases are moved with the time that they had left.
//
// Most programs use these algorithms through a store; this package is for
// those who write one. Values of its types are immutable once made and safe for
// concurrent use; a state belongs to whoever holds its lock.
package algo
