package laws

import (
	"math/big"
	"time"

	"github.com/sluicehq/sluice"
)

// ask is a question about a key at a time. Times are in microseconds.
type ask struct {
	now, cost, floor int64
	wait             int64 // 0 for what the limit offers, negative for none
	member           uint64
}

// longest returns the longest wait that is acceptable.
func (a ask) longest() int64 { return max(a.wait, 0) }

// charge is what an allowed question took, in the terms of an oracle.
type charge struct {
	ask
	at    int64    // the time it was charged at, later than now if the clock went back
	over  *big.Rat // units that had to come back before it acts, or stood in a queue after it
	delay int64
}

// oracle answers questions about one key from the definition of its algorithm.
// It is a value: methods return the state after them and change nothing.
type oracle interface {
	decide(a ask) (sluice.Decision, charge, oracle)
	cancel(now int64, c charge) oracle
	settle(now int64, c charge, actual int64) oracle
	// fresh reports whether the state may be forgotten.
	fresh(now int64) bool
	// same reports whether another state is this one.
	same(o oracle) bool
}

func rat(n int64) *big.Rat            { return new(big.Rat).SetInt64(n) }
func add(a, b *big.Rat) *big.Rat      { return new(big.Rat).Add(a, b) }
func sub(a, b *big.Rat) *big.Rat      { return new(big.Rat).Sub(a, b) }
func mul(a, b *big.Rat) *big.Rat      { return new(big.Rat).Mul(a, b) }
func less(a, b *big.Rat) bool         { return a.Cmp(b) < 0 }
func positive(a *big.Rat) *big.Rat    { return larger(a, new(big.Rat)) }
func perMicro(r sluice.Rate) *big.Rat { return big.NewRat(r.Count(), r.Period().Microseconds()) }

func larger(a, b *big.Rat) *big.Rat {
	if less(a, b) {
		return b
	}
	return a
}

func smaller(a, b *big.Rat) *big.Rat {
	if less(b, a) {
		return b
	}
	return a
}

// down rounds a number that is not negative down.
func down(r *big.Rat) int64 {
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
}

// up rounds a number that is not negative up.
func up(r *big.Rat) int64 {
	q, m := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// after returns the time in which units come back at a rate, rounded up.
func after(units, rate *big.Rat) int64 {
	return up(new(big.Rat).Quo(positive(units), rate))
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func allowed(remaining, delay, reset int64) sluice.Decision {
	return sluice.Decision{Allowed: true, Remaining: max(0, remaining), Delay: micros(delay), ResetAfter: micros(reset)}
}

func denied(reason sluice.Reason, remaining, retry, reset int64) sluice.Decision {
	return sluice.Decision{
		Reason: reason, Remaining: max(0, remaining), RetryAfter: micros(retry), ResetAfter: micros(reset),
	}
}

func never(remaining, reset int64) sluice.Decision {
	return denied(sluice.ReasonNever, remaining, 0, reset)
}

// look answers as decide, and says what could be taken.
func look(o oracle, a ask) sluice.Decision {
	d, _, _ := o.decide(a)
	if d.Allowed && a.cost > 0 {
		a.cost, a.member = 0, 0
		none, _, _ := o.decide(a)
		d.Remaining = none.Remaining
	}
	return d
}
