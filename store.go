package sluice

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// Store keeps the state of limits and owns the clock. Most programs pass one to [NewLimiter] and
// call the Limiter. All methods are safe for concurrent use, and the decisions about one key
// are linearizable. Package storetest holds this contract as tests.
//
// To wrap a store, such as to trace its calls, embed a Store, not a concrete type: its further methods would be called
// past the wrapper. See [As] for how the wrapper keeps bans.
//
// A denial is a Decision. An error means that nothing was decided or changed, unless it wraps
// ErrUnknownOutcome.
type Store interface {
	// Decide decides one request.
	Decide(ctx context.Context, r Request) (Decision, error)
	// DecideAll decides several requests as one: all are charged, or none is. It writes the
	// decisions to out, which is as long as rs. Two requests with the same limit and key add up.
	//
	// A request with Peek takes nothing but can deny the batch. A request with Shadow is decided
	// and charged on its own. A request with Debit is charged in any case, before the others are
	// decided, and its denial denies the batch. If any decision other than a shadow's is a denial, only
	// shadows and debits were charged. The other allowed decisions are peeks then: Remaining is what
	// could be taken, and ResetAfter is of the state as it is. A denial counts the requests of the
	// batch before it, and is otherwise the same as without the batch. An error may be a *driver.DenialError.
	DecideAll(ctx context.Context, rs []Request, out []Decision) error
	// Cancel gives back what a charge took, except the part on which later charges rely. After the
	// moment at which the charge acts, it changes nothing and returns ErrActed. It releases a lease.
	Cancel(ctx context.Context, c Charge) error
	// Settle replaces the cost of a charge by the actual cost.
	Settle(ctx context.Context, c Charge, actual int64) error
	// Release ends a lease of a concurrency limit; latency is how long it was held. It returns
	// ErrLeaseLost if the lease had ended by itself.
	Release(ctx context.Context, c Charge, latency time.Duration) error
	// Reset forgets the state of a limit's key, and the ban of the key under the limit's name.
	// State that another algorithm has under the same name stays.
	Reset(ctx context.Context, l *Limit, k Key) error
}

// As returns the store as a T: an optional interface such as [Banner]. If the store is not a T but has a
// method Unwrap() Store, As tries the store that Unwrap returns, and so on.
//
// A store that wraps another one, such as to trace its calls, has Unwrap if calls of optional interfaces may bypass it.
// If they may not, it implements these interfaces. Nothing that decides requests goes through As.
func As[T any](store Store) (t T, ok bool) {
	for store != nil {
		if t, ok = store.(T); ok {
			return t, true
		}
		wrapper, wraps := store.(interface{ Unwrap() Store })
		if !wraps {
			break
		}
		store = wrapper.Unwrap()
	}
	return t, false
}

// taker decides the simplest requests: see driver.Taker.
type taker interface {
	Take(ctx context.Context, l *Limit, k Key, cost int64) (Decision, error)
}

// plain makes any store a taker.
type plain struct{ Store }

func (p plain) Take(ctx context.Context, l *Limit, k Key, cost int64) (Decision, error) {
	return p.Decide(ctx, Request{Limit: l, Key: k, Cost: cost})
}

// Receipt identifies a charge, in the terms of its algorithm. Only stores read it.
type Receipt struct {
	// At is the time of the charge.
	At int64
	// Over is what else the algorithm needs.
	Over uint64
}

// Charge says what a decision took. A store needs it to settle or cancel the decision.
type Charge struct {
	// Limit, Key, Cost, Floor and Member are copied from the request.
	Limit       *Limit
	Key         Key
	Cost, Floor int64
	Member      uint64
	// Receipt is the decision's.
	Receipt Receipt
}

// Charge returns the charge that d, a decision about r, has made.
func (r *Request) Charge(d *Decision) Charge {
	return Charge{r.Limit, r.Key, r.Cost, r.Floor, r.Member, d.Receipt}
}

// Check reports why a store cannot decide r, with a *RequestError. It returns nil for a valid
// request. A store calls it before it decides.
func (r *Request) Check() error {
	if r.Limit != nil && r.Cost|r.Floor >= 0 && r.Ban == nil && r.Member|r.Limit.leaseless != 0 && !r.Debit && !r.Overdraw && r.Hold == 0 {
		return nil
	}
	return r.problem()
}

// lacksLimit reports whether the request has no limit, or one that NewLimit has not made.
func (r *Request) lacksLimit() bool { return r.Limit == nil || r.Limit.algorithm == nil }

// unsupported returns the error of a request that the limit's algorithm does not have.
func (r *Request) unsupported(problem string) error {
	return &RequestError{Limit: r.Limit.Name(), Problem: problem, Err: ErrUnsupported}
}

func (r *Request) problem() error {
	if r.lacksLimit() {
		return &RequestError{Problem: "has no limit; make one with NewLimit"}
	}
	fail := func(problem string) error { return &RequestError{Limit: r.Limit.Name(), Problem: problem} }
	switch {
	case r.Cost < 0:
		return fail("the cost is negative; to give units back, settle or cancel their reservation")
	case r.Floor < 0:
		return fail("the floor is negative; give 0 or more")
	case r.Limit.IsConcurrency() && r.Member == 0 && r.Cost > 0 && !r.Peek:
		return r.unsupported("a concurrency limit grants leases, and each needs a Member of its own; use Limiter.Acquire")
	case r.Debit && r.Overdraw:
		return fail("it is a debit and an overdraw; a debit takes its cost whatever is left")
	case r.Overdraw && !r.Limit.debits:
		return r.unsupported("a leaky bucket or a concurrency limit cannot owe units; overdraw a token bucket, a window, a counter or a log")
	case r.Debit && !r.Limit.debits:
		return r.unsupported("a leaky bucket or a concurrency limit cannot owe units; debit a token bucket, a window, a counter or a log")
	}
	switch {
	case r.Hold < 0 || 0 < r.Hold && r.Hold < time.Millisecond || r.Hold > maxHold:
		return fail("the hold is not a millisecond to 24 hours; give 0 for none")
	case r.Hold > 0 && !r.Limit.debits:
		return r.unsupported("a leaky bucket or a concurrency limit has no holds, because it cannot owe units; leave the hold out")
	case r.Hold > 0 && (r.Debit || r.MaxWait > 0):
		return fail("it has a hold, and is a debit or accepts a wait; leave one of them out")
	}
	if r.Ban != nil {
		if err := r.Ban.Check(); err != nil {
			var bad *BanError // the first one
			errors.As(err, &bad)
			return fail("a ban's " + bad.Field + " " + withRemedy(bad.Problem, bad.Remedy))
		}
	}
	return nil
}

// Params returns the numbers with which the stores of this repository compute. Other stores call driver.Decide. Do not
// change them.
func (l *Limit) Params() *algo.Params { return &l.params }

// ID returns 128 bits that identify the name and the algorithm, whatever the numbers. Stores
// keep states under it. A token bucket with a warm-up and one without are two algorithms.
func (l *Limit) ID() [2]uint64 { return l.id }

// NameID returns 128 bits that identify only the name. Stores keep bans under it. Its first half
// equals the first half of ID, so that a store can keep both together.
func (l *Limit) NameID() [2]uint64 { return l.nameID }

// Terms returns the numbers with which the stores of this repository decide about a ban.
func (b *Ban) Terms() algo.Ban {
	t := algo.Ban{
		After: b.After, Within: int64(b.Within / time.Microsecond), For: int64(b.For / time.Microsecond),
		Escalate: b.Escalate, Prolong: b.Prolong,
	}
	if t.Within == 0 {
		t.Within = t.For
	}
	if b.uncounted {
		t.After, t.Prolong = 0, false
	}
	if len(b.Escalate) > 0 {
		forget := b.Forget
		if forget == 0 {
			forget = b.For
			for _, d := range b.Escalate {
				forget = max(forget, d)
			}
		}
		t.Forget = int64((forget + time.Second - 1) / time.Second)
	}
	return t
}

// Len returns the number of the key's parts.
func (k Key) Len() int { return k.parts }

// Text returns the encoding of the key's parts. Text and Len together identify the key.
func (k Key) Text() string { return k.text }

// EncodedKey returns the key whose parts AppendKeyPart has encoded. The text of a single part
// is the part itself, without its length.
func EncodedKey(text string, parts int) Key { return Key{text, parts} }

// AppendKeyPart appends a part to the encoding of a key with two or more parts, for
// EncodedKey.
func AppendKeyPart(dst []byte, part string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	return append(dst, part...)
}
