// Package algo holds the rate limiting algorithms as pure arithmetic. They compute the next state
// and a result from a state, the numbers of a limit, the time and a cost. Nothing here reads a
// clock, takes a lock or allocates.
//
// All arithmetic is on integers and exact. Time is in microseconds since the Unix epoch. A rate of
// n units per P microseconds is first reduced to its lowest terms. Amounts are counted in ticks:
// one unit is P ticks, and one microsecond refills n ticks. No fraction of a unit is ever lost,
// whatever the times and costs of the requests.
//
// The zero state of every algorithm is a fresh one: the state of a key that has never been seen.
// Only a state that time has made equal to a fresh one may be forgotten. No later request can
// distinguish the two states, unless its time goes back to before the state was forgotten.
//
// # Time that goes back
//
// Every state remembers the latest time at which it was charged; windows and cells remember the
// latest window or cell. A request with an earlier time is decided as of that latest time, or as
// of the beginning of that window. Nothing is refilled twice, and the wait in the result includes
// the difference.
//
// If the difference is more than one period of the limit, the clock was set back. The state moves
// to the new time with all its units spent: the change gives nobody extra units. No key is locked
// out for more than a period beyond what the limit demands anyway. Leases move too, and keep the
// time that they had left.
//
// Programs use these algorithms through a store; this package is for the stores of this repository.
// Values of its types are immutable once made and safe for concurrent use. Callers lock a state
// while they use it.
package algo
