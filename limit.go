package sluice

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// maxUnits bounds every count of units.
const maxUnits = algo.MaxCount

// kindShift puts the algorithm into the highest bits of an ID: a store may keep only these bits.
const kindShift = 56

// Limit is a name, an algorithm and its numbers: an immutable, validated value.
//
// Make a limit once and keep it: stores know limits by their pointers, so that equal limits made for each request fill
// them with versions. Limits without a name and with equal numbers share their state in a store.
//
// State is kept per name, algorithm and key. Two limits with the same name and algorithm are
// versions of one limit. A request converts the state of its key to the numbers of its own
// version: used units stay used. Two limits with the same name and different algorithms count
// separately and share their bans.
// It is safe for concurrent use.
type Limit struct {
	name      string
	algorithm Algorithm
	rate      Rate
	full      time.Duration // see TimeToFull
	params    algo.Params
	id        [2]uint64
	nameID    [2]uint64
	// leaseless is 1 for a limit whose requests need no member: Request.Check uses it for a quick
	// test.
	leaseless uint64
	debits    bool    // see TakesDebits
	hybrid    *Hybrid // nil for a limit without such terms
}

// NewLimit returns a limit. A limit without a name is identified by its algorithm and its
// numbers, defaults included: two of them with equal numbers share the budgets of keys in one store. The error is a
// *LimitError.
func NewLimit(name string, a Algorithm) (*Limit, error) {
	if a == nil {
		return nil, &LimitError{Limit: name, Field: "Algorithm", Problem: "is missing", Remedy: "give one such as sluice.TokenBucket"}
	}
	l := &Limit{name: name}
	if err := a.compile(&l.params); err != nil {
		err.Limit = name
		return nil, err
	}
	l.algorithm = a.complete()
	l.rate = l.algorithm.rate()
	l.full = l.rate.timeFor(l.Capacity())
	if !l.IsConcurrency() {
		l.leaseless = 1
	}
	l.debits = l.params.TakesDebits()
	if name == "" {
		l.name = l.algorithm.String()
	}
	sum := sha256.Sum256([]byte(l.name))
	l.nameID = [2]uint64{binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])}
	l.id = [2]uint64{l.nameID[0], l.nameID[1] ^ uint64(l.params.Kind)<<kindShift}
	return l, nil
}

// MustLimit is NewLimit for limits that are written in the program; it panics on an error.
func MustLimit(name string, a Algorithm) *Limit {
	l, err := NewLimit(name, a)
	if err != nil {
		panic(err)
	}
	return l
}

// Name returns the name of the limit. A limit without one has the text of its algorithm and
// numbers as its name.
func (l *Limit) Name() string { return l.name }

// IsNamed reports whether the limit has a name of its own, not the text of its numbers.
func (l *Limit) IsNamed() bool { return l.name != l.algorithm.String() }

// Algorithm returns the algorithm and its numbers, with the defaults filled in.
func (l *Limit) Algorithm() Algorithm { return l.algorithm }

// Capacity returns the most units that the limit can give at once. For a token bucket it is the
// burst, and for windows and logs the count. For a leaky bucket it is Queue + 1, and for a
// concurrency limit Max + Queue.
func (l *Limit) Capacity() int64 { return l.params.Capacity }

// Rate returns the rate at which the limit gives units. For the windows of a calendar it is
// the count per day, per week or per 30 days. A concurrency limit has the zero Rate.
func (l *Limit) Rate() Rate { return l.rate }

// TimeToFull returns the time in which the Rate gives the whole Capacity, rounded up: the
// period of a window, the time to fill a bucket. It is zero for a concurrency limit.
func (l *Limit) TimeToFull() time.Duration { return l.full }

// IsConcurrency reports whether the limit bounds the units in flight. Its requests take
// leases, which are released or end with their TTL.
func (l *Limit) IsConcurrency() bool { return l.params.Kind == algo.KindConcurrency }

// TakesDebits reports whether requests may be debits, which can leave a debt: see Request.Debit. Leaky
// buckets and concurrency limits cannot owe units, because they promise each request its turn.
func (l *Limit) TakesDebits() bool { return l.debits }

// LeaseTTL returns how long a lease of a concurrency limit lasts unless it is released or
// renewed. It is zero for all other limits, which have no leases.
func (l *Limit) LeaseTTL() time.Duration {
	return time.Duration(l.params.Conc.TTL) * time.Microsecond
}

// Delays reports whether the limit may delay a request that has no MaxWait, as a leaky bucket with
// a queue does.
func (l *Limit) Delays() bool {
	switch a := l.algorithm.(type) {
	case LeakyBucket:
		return a.Queue > a.Undelayed
	case Concurrency:
		return a.Queue > 0
	default:
		return false
	}
}

// String returns the name and the numbers.
func (l *Limit) String() string {
	if l.IsNamed() {
		return fmt.Sprintf("%s: %s", l.name, l.algorithm)
	}
	return l.name
}
