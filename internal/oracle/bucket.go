package oracle

import (
	"fmt"
	"math/big"
)

// The largest amounts that a store counts. A request that would need more is denied.
const (
	mostUnits = 1<<53 - 1
	mostTicks = 1 << 62
)

// Bucket is a token bucket.
type Bucket struct {
	burst, debt int64
	rate        *big.Rat // tokens per microsecond
	period      int64    // how far the clock may go back
	most        *big.Rat // the most tokens that may be missing

	tokens *big.Rat
	last   int64
	// lent is set when the number of tokens does not show when the last reservation acts. Either a part
	// of an earlier reservation came back, or a reservation waits for its floor.
	lent bool
}

// NewBucket returns a full bucket of burst tokens, refilled with count tokens per period. A settlement
// may leave it with a debt of up to debt tokens.
func NewBucket(count, period, burst, debt int64) Bucket {
	b := Bucket{burst: burst, debt: debt, rate: Rat(count, period), tokens: whole(burst)}
	b.period = max(period, Up(quo(whole(burst), b.rate)))
	// A state counts ticks: one token has as many ticks as the reduced period has microseconds.
	b.most = smaller(whole(mostUnits), new(big.Rat).SetFrac(big.NewInt(mostTicks), b.rate.Denom()))
	return b
}

// Period returns how far the clock may go back before the bucket counts as empty.
func (b Bucket) Period() int64 { return b.period }

// refilled returns the tokens at a time, and the time from which to count.
func (b Bucket) refilled(now int64) (*big.Rat, int64) {
	switch {
	case now == b.last:
		return b.tokens, now
	case now > b.last:
		return smaller(whole(b.burst), add(b.tokens, mul(whole(now-b.last), b.rate))), now
	case b.last-now <= b.period:
		return b.tokens, b.last
	default: // the clock was set back: no token is left
		return smaller(b.tokens, new(big.Rat)), now
	}
}

// at returns the bucket at a time.
func (b Bucket) at(now int64) Bucket {
	b.tokens, b.last = b.refilled(now)
	b.lent = b.lent && less(b.tokens, whole(b.burst))
	return b
}

// over returns how many tokens a request lacks, and the time from which to count.
func (b Bucket) over(r Request) (*big.Rat, int64) {
	tokens, at := b.refilled(r.Now)
	need := whole(r.need(b.burst, Down(b.most)))
	if r.Cost > 0 {
		need = add(need, whole(r.Floor))
	}
	return sub(need, tokens), at
}

// Allows implements State.
func (b Bucket) Allows(r Request) (bool, int64, Reason) {
	if r.Cost > 0 && r.need(b.burst, Down(b.most)) > b.burst-r.Floor {
		return false, 0, Never
	}
	over, at := b.over(r)
	if over.Sign() <= 0 {
		return true, 0, None
	}
	wait := Up(quo(over, b.rate)) + at - r.Now
	tokens, _ := b.refilled(r.Now)
	missing := sub(whole(b.burst+r.Cost), tokens)
	if wait > r.MaxWait || less(b.most, missing) {
		return false, 0, Limited
	}
	return true, wait, None
}

// Take implements State.
func (b Bucket) Take(r Request, allowed bool) (State, Charge) {
	over, at := b.over(r)
	c := Charge{Cost: r.Cost, Floor: r.Floor, At: at, Act: whole(at)}
	if b.last-r.Now > b.period {
		b = b.at(r.Now)
	}
	if !allowed && r.Debit && r.Cost > 0 {
		return b.Settle(r.Now, Charge{}, min(r.Cost, mostUnits)), c
	}
	if !allowed || r.Cost == 0 {
		return b, c
	}
	waits := false
	if tokens, _ := b.refilled(r.Now); r.need(b.burst, Down(b.most)) < r.Cost && less(tokens, whole(r.Cost+r.Floor)) {
		c.Act = whole(max(at-1, 0)) // it has acted at once, and cannot be cancelled
		c.At = max(at-1, 0)
		c.Floor = 0
		waits = over.Sign() > 0 && r.Floor > 0
	} else if over.Sign() > 0 {
		c.Act = add(c.Act, quo(over, b.rate))
		waits = r.Floor > 0
	} else {
		c.Floor = 0 // a request that acts at once does not wait for its floor
	}
	b = b.at(r.Now)
	b.lent = b.lent || waits
	b.tokens = sub(b.tokens, whole(r.Cost))
	return b, c
}

// Remaining implements State.
func (b Bucket) Remaining(r Request) int64 {
	tokens, _ := b.refilled(r.Now)
	return Down(larger(new(big.Rat), sub(tokens, whole(r.Floor))))
}

// Fresh implements State.
func (b Bucket) Fresh(now int64) bool {
	tokens, _ := b.refilled(now)
	return now >= b.last && tokens.Cmp(whole(b.burst)) == 0
}

// Settle implements State.
func (b Bucket) Settle(now int64, c Charge, actual int64) State {
	b = b.at(now)
	tokens := add(b.tokens, whole(c.Cost-actual))
	switch least := whole(-b.debt); {
	case actual <= c.Cost:
		b.lent = b.lent || b.tokens.Sign() < 0 && actual < c.Cost
		return b.gain(tokens)
	case !less(tokens, least):
		b.tokens = tokens
	case less(least, b.tokens):
		b.tokens = least
	}
	return b
}

// gain sets the tokens after some tokens came back.
func (b Bucket) gain(tokens *big.Rat) Bucket {
	if full := whole(b.burst); !less(tokens, full) {
		tokens, b.lent = full, false
	}
	b.tokens = tokens
	return b
}

// Cancel implements State.
func (b Bucket) Cancel(now int64, c Charge) State {
	tokens, at := b.refilled(now)
	if c.Cost == 0 || b.last-now > b.period || c.At > at || at > Up(c.Act) || b.lent && c.Act.Cmp(whole(c.At)) == 0 {
		return b
	}
	// The last reservation acts when the bucket has its floor again. The tokens that come back between
	// this reservation and the last one are already taken.
	last := add(quo(sub(whole(c.Floor), tokens), b.rate), whole(at))
	give, lent := whole(c.Cost), false
	if less(c.Act, last) {
		give = sub(give, mul(sub(last, c.Act), b.rate))
		if give.Sign() <= 0 || b.lent {
			return b
		}
		lent = true
	}
	b = b.at(now)
	b.lent = b.lent || lent
	return b.gain(add(give, b.tokens))
}

// Equal implements State.
func (b Bucket) Equal(s State) bool {
	o := s.(Bucket)
	return b.last == o.last && b.lent == o.lent && b.tokens.Cmp(o.tokens) == 0
}

// String returns the numbers that change, for traces.
func (b Bucket) String() string {
	text := fmt.Sprintf("%s tokens at %d", b.tokens.RatString(), b.last)
	if b.lent {
		text += ", lent"
	}
	return text
}
